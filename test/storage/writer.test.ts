/** The writer over a backend whose transactions end when the test says so. */
import { expect, it } from "vitest"
import { openMemory } from "../../storage/memory.ts"
import { StorageFault, type Store, type Write } from "../../storage/store.ts"
import { storeOf, Writer, type Backend, type Change } from "../../storage/writer.ts"

const text = (value: string): Uint8Array => new TextEncoder().encode(value)

/** A backend in memory that holds each transaction. */
class HeldBackend implements Backend {
  private readonly rows = new Map<string, Change>()
  private end: ((fault?: StorageFault) => void) | undefined

  get(key: Change["key"]): Uint8Array | undefined {
    return this.rows.get(key.join("/"))?.value
  }

  range(prefix: Change["key"]): ReadonlyArray<{ readonly key: Change["key"]; readonly value: Uint8Array }> {
    return [...this.rows.values()].flatMap(({ key, value }) =>
      value !== undefined && prefix.every((part, i) => part === key[i]) ? [{ key, value }] : []
    )
  }

  apply(changes: ReadonlyArray<Change>): Promise<void> {
    return new Promise((resolve, reject) => {
      this.end = (fault) => {
        if (fault !== undefined) return reject(fault)
        for (const change of changes) this.rows.set(change.key.join("/"), change)
        resolve()
      }
    })
  }

  async finish(fault?: StorageFault): Promise<void> {
    this.end!(fault)
    await turn()
  }
}

const turn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve)
  })

const io = () => new StorageFault({ reason: "io", detail: "torn cable" })
const open = (): { readonly backend: HeldBackend; readonly store: Store } => {
  const backend = new HeldBackend()
  return { backend, store: storeOf(new Writer(backend), openMemory()) }
}

const append = (seq: number): Write => ({
  _tag: "append",
  kind: "k",
  id: "x",
  seq,
  events: [text(`e${seq}`)]
})

const put = (key: string, value: string, when?: "absent" | "present"): Write => ({
  _tag: "put",
  table: "t",
  key: [key],
  value: text(value),
  ...(when === undefined ? {} : { when })
})

const ignored = (): void => {}

it("flushed() waits for the transaction that is on its way", async () => {
  const { backend, store } = open()
  store.commit([put("a", "1")], ignored)
  await turn()
  let flushed = false
  void store.flushed().then(() => {
    flushed = true
  })
  await turn()
  expect(flushed).toBe(false)
  await backend.finish()
  await backend.finish()
  expect(flushed).toBe(true)
})

it("after a lost commit the journal goes on where the disk ends", async () => {
  const { backend, store } = open()
  store.commit([append(1)], ignored)
  await turn()
  await backend.finish()
  store.commit([append(2)], ignored)
  await turn()
  await backend.finish(io())
  expect(store.commit([append(3)], ignored)).toMatchObject({ reason: "sequence" })
  expect(store.commit([append(2)], ignored)).toBeUndefined()
  await turn()
  await backend.finish()
  expect(store.readJournal("k", "x", 0).map(({ seq }) => seq)).toEqual([1, 2])
})

it("conditions see the transaction that is on its way", async () => {
  const { backend, store } = open()
  store.commit([put("a", "1")], ignored)
  await turn()
  expect(store.commit([put("a", "2", "absent")], ignored)).toMatchObject({ reason: "condition" })
  expect(store.commit([put("a", "2", "present")], ignored)).toBeUndefined()
  await backend.finish()
})
