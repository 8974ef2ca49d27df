import { describe, expect, it } from "vitest"
import { TranslationCache } from "../../../../protocols/translation/text/cache.ts"

const entry = (text: string) => ({ text, detected: "EN", engine: "fake" })

describe("translation cache", () => {
  it("keeps what is used, drops what is not, never more than two generations", () => {
    const cache = new TranslationCache(10, 100_000)
    cache.set("kept", entry("x"))
    for (let i = 0; i < 100; i++) {
      cache.set(`k${i}`, entry("x"))
      cache.get("kept")
      expect(cache.size).toBeLessThanOrEqual(20)
    }
    expect(cache.get("kept")).toEqual(entry("x"))
    expect(cache.get("k0")).toBeUndefined()
    expect(cache.get("k99")).toEqual(entry("x"))
  })
  it("is bounded in characters, and takes no giant", () => {
    const cache = new TranslationCache(1_000, 1_000)
    cache.set("giant", entry("x".repeat(20)))
    expect(cache.size).toBe(0)
    for (let i = 0; i < 1_000; i++) cache.set(String(i), entry("12345"))
    expect(cache.size).toBeLessThan(260)
  })
})
