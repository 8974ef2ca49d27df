/** What the cache of answers holds. Source: docs/spec/store.md, section 7. */
import { expect, it } from "vitest"
import { AnswerCache, type Entry } from "../../../../protocols/store/engine/cache.ts"

/** Each entry of these costs 1,000 bytes: 2 · (key + body) + 200. */
const entry = (fields: Partial<Entry> = {}): Entry => ({
  body: "x".repeat(399),
  etag: undefined,
  lastModifiedMs: 0,
  storedMs: 0,
  expiresMs: 1_000,
  versions: [],
  ...fields
})

const opened = (entries: number) => {
  const versions = new Map<string, number>()
  const cache = new AnswerCache((collection) => versions.get(collection) ?? 0, entries * 1_000)
  const keys = () => [..."abcdefghijklmnop"].filter((key) => cache.get(key, 0) !== undefined).join("")
  return { cache, versions, keys }
}

it("it holds as many bytes as it may, and the least recently used leave", () => {
  const { cache, keys } = opened(8)
  for (const key of "abcdefgh") cache.set(key, entry())
  expect([cache.size, keys()]).toEqual([8, "abcdefgh"])
  cache.get("a", 0)
  cache.set("i", entry())
  expect([cache.size, keys()]).toEqual([8, "acdefghi"])
})

it("what left, or was replaced, is counted no longer: it never shrinks", () => {
  const { cache } = opened(8)
  for (let round = 0; round < 10; round++) for (const key of "abcdefgh") cache.set(key, entry())
  expect(cache.size).toBe(8)
  for (const key of "abcdefgh") cache.drop(key)
  cache.drop("a")
  for (const key of "ijklmnop") cache.set(key, entry())
  expect(cache.size).toBe(8)
})

it("an answer of more than an eighth is not stored", () => {
  const { cache } = opened(8)
  cache.set("a", entry({ body: "x".repeat(400) }))
  expect(cache.size).toBe(0)
})

it("an answer is good until its end, and while its collections are as they were", () => {
  const { cache, versions } = opened(8)
  cache.set("a", entry({ expiresMs: 100, versions: [["products", 0]] }))
  expect(cache.get("a", 99)).toBeDefined()
  expect(cache.get("a", 100)).toBeUndefined()
  cache.set("a", entry({ versions: [["products", 0]] }))
  versions.set("products", 1)
  expect([cache.get("a", 0), cache.size]).toEqual([undefined, 0])
})
