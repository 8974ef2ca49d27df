/** What a sealed document refuses. Source: docs/spec/documents.md, sections 9.1 and 9.2. */
import { expect, it } from "vitest"
import {
  keysOf,
  newDocumentKey,
  opened,
  sealing,
  SealedFault,
  type DocumentKeys,
  type Label
} from "../../../actors/documents/sealed.ts"

const id = "D1"
const documentKey = newDocumentKey()
const keys = keysOf(documentKey, id)!
const headerBytes = 18
const chunkBytes = 65_536
const sealedChunkBytes = chunkBytes + 16

const seal = async (
  plain: Uint8Array,
  label: Label = "source",
  using: DocumentKeys = keys
): Promise<Buffer> => {
  const parts: Array<Uint8Array> = []
  for await (const part of sealing([plain], using, label)) parts.push(part)
  return Buffer.concat(parts)
}

const open = (sealed: Uint8Array, label: Label = "source", using: DocumentKeys = keys): Promise<Buffer> =>
  opened(
    (async function* () {
      yield sealed
    })(),
    using,
    label
  )

/** Two whole chunks and a short one. */
const plain = Buffer.alloc(2 * chunkBytes + 10, "text of the document ")

it("a document opens with its key, whole", async () => {
  expect((await open(await seal(plain))).equals(plain)).toBe(true)
  expect((await open(await seal(Buffer.alloc(0)))).length).toBe(0)
})

it("a document that was cut off at a chunk does not open", async () => {
  const sealed = await seal(plain)
  for (const chunks of [0, 1, 2])
    await expect(open(sealed.subarray(0, headerBytes + chunks * sealedChunkBytes))).rejects.toThrow(
      SealedFault
    )
})

it("a document whose chunks were swapped, or one doubled, does not open", async () => {
  const sealed = await seal(plain)
  const header = sealed.subarray(0, headerBytes)
  const first = sealed.subarray(headerBytes, headerBytes + sealedChunkBytes)
  const second = sealed.subarray(headerBytes + sealedChunkBytes, headerBytes + 2 * sealedChunkBytes)
  const last = sealed.subarray(headerBytes + 2 * sealedChunkBytes)
  for (const forged of [
    [header, second, first, last],
    [header, first, first, last],
    [header, first, second, second, last],
    [header, second, last]
  ])
    await expect(open(Buffer.concat(forged))).rejects.toThrow(SealedFault)
})

it("each part of a document has a key of its own, and so has each document", async () => {
  const labels: ReadonlyArray<Label> = ["source", "result", "segments", "meta"]
  const another = keysOf(documentKey, "D2")!
  const derived = [keys, another].flatMap((of) => labels.map((label) => of.of(label).toString("hex")))
  expect(new Set(derived).size).toBe(8)
  expect(another.check).not.toBe(keys.check)
  await expect(open(await seal(plain), "result")).rejects.toThrow(SealedFault)
  await expect(open(await seal(plain), "source", another)).rejects.toThrow(SealedFault)
})

it("no changed byte passes: header, chunk and tag", async () => {
  const sealed = await seal(Buffer.from("short"))
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed)
    changed[at]! ^= 1
    await expect(open(changed), `byte ${at}`).rejects.toThrow(SealedFault)
  }
})
