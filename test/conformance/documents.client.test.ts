/** The published client drives documents over a real socket, with scripted engines behind. */
import * as deepl from "deepl-node"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { DocumentWorld } from "../protocols/translation/documents/document-world.ts"

const words: Record<string, string> = { "proton beam": "Protonenstrahl" }

const script = {
  change: (text: string) => words[text] ?? text.toUpperCase(),
  detects: { "Schon deutsch": "de" }
}

describe.each(["uws", "node"] as const)("deepl-node documents over %s", (adapter) => {
  let world: DocumentWorld
  let client: deepl.Translator
  const folder = mkdtempSync(join(tmpdir(), "troupe-docs-"))
  const input = join(folder, "in.txt")
  const output = join(folder, "out.txt")
  beforeAll(async () => {
    world = await DocumentWorld.open(script, { adapter, account: { limits: { documents: 100 } } })
    client = world.client()
  })
  afterAll(async () => {
    await world.close()
    rmSync(folder, { recursive: true })
  })

  it("translateDocument: file to file, billed, line structure kept", async () => {
    writeFileSync(input, "proton beam\n\n  second line\r\n")
    const status = await client.translateDocument(input, output, "en", "de")
    expect(status).toMatchObject({ status: "done", billedCharacters: 28 })
    expect(readFileSync(output, "utf8")).toBe("Protonenstrahl\n\n  SECOND LINE\r\n")
  })
  it("upload, status, download; a handle once used is unknown", async () => {
    const handle = await client.uploadDocument(Buffer.from("proton beam"), "en", "de", {
      filename: "a.txt",
      formality: "more"
    })
    expect(handle.documentId).toMatch(/^[0-9A-F]{32}$/)
    expect(handle.documentKey).toMatch(/^[0-9A-F]{64}$/)
    const { status } = await client.isDocumentTranslationComplete(handle)
    expect(status.ok()).toBe(true)
    writeFileSync(output, "")
    const { createWriteStream } = await import("node:fs")
    await client.downloadDocument(handle, createWriteStream(output))
    expect(readFileSync(output, "utf8")).toBe("Protonenstrahl")
    await expect
      .poll(() =>
        client.getDocumentStatus(handle).then(
          () => "there",
          (cause: Error) => cause.message
        )
      )
      .toMatch(/not found/i)
  })
  it("errors: unsupported extension, a made-up handle, equal languages, document too early, usage", async () => {
    await expect(
      client.uploadDocument(Buffer.from("x"), null, "de", { filename: "document.invalid" })
    ).rejects.toThrow(/nvalid file|file extension/)
    await expect(
      client.getDocumentStatus({ documentId: "0".repeat(32), documentKey: "0".repeat(64) })
    ).rejects.toThrow(/not found/i)
    await expect(client.uploadDocument(Buffer.from("x"), "de", "de", { filename: "a.txt" })).rejects.toThrow(
      /Source and target language/
    )
    writeFileSync(input, "Schon deutsch")
    rmSync(output, { force: true })
    await expect(client.translateDocument(input, output, null, "de")).rejects.toThrow(
      /Source and target language/
    )
    expect((await client.getUsage()).document).toMatchObject({ limit: 100 })
  })
})
