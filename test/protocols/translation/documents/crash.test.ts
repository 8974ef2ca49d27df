import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { beforeAll, expect, it } from "vitest"
import { buildChild, startChild, type Child } from "../../../child.ts"

const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 20) > 20 ? 40 : 6
const lines = Array.from({ length: 1_200 }, (_, i) => `Sentence number ${i} of the crash test`)
const source = lines.join("\n")
const wanted = source.toUpperCase()

interface Handle {
  document_id: string
  document_key: string
}

let program: string

beforeAll(async () => {
  program = await buildChild("test/protocols/translation/documents/document-child.ts")
})

class Server {
  readonly folder = mkdtempSync(join(tmpdir(), "troupe-document-"))
  child!: Child
  base = ""
  secret = ""

  async up(): Promise<void> {
    this.child = startChild(program, [this.folder, this.secret])
    const [port, key] = (await this.child.line(/^\d+ \S/)).split(" ") as [string, string]
    this.base = `http://127.0.0.1:${port}`
    this.secret = key
  }

  async kill(): Promise<void> {
    this.child.process.kill("SIGKILL")
    await this.child.exited
  }

  async upload(): Promise<Handle> {
    const form = new FormData()
    form.append("file", new Blob([source]), "crash.txt")
    form.append("target_lang", "DE")
    form.append("source_lang", "EN")
    const answer = await fetch(`${this.base}/v2/document`, {
      method: "POST",
      headers: { authorization: `DeepL-Auth-Key ${this.secret}` },
      body: form
    })
    expect(answer.status).toBe(200)
    return (await answer.json()) as Handle
  }

  post({ document_id, document_key }: Handle, under = ""): Promise<Response> {
    return fetch(`${this.base}/v2/document/${document_id}${under}`, {
      method: "POST",
      headers: { authorization: `DeepL-Auth-Key ${this.secret}`, "content-type": "application/json" },
      body: JSON.stringify({ document_key })
    })
  }

  async status(
    handle: Handle
  ): Promise<{ status: string; error_message?: string; billed_characters?: number }> {
    return (await (await this.post(handle)).json()) as any
  }

  async until(
    handle: Handle,
    wanted: string
  ): Promise<{ error_message?: string; billed_characters?: number }> {
    for (let i = 0; i < 4_000; i++) {
      const status = await this.status(handle)
      if (status.status === wanted) return status
      if (status.status === "error") throw new Error(status.error_message)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    throw new Error(`never ${wanted}`)
  }

  get blobs(): ReadonlyArray<string> {
    return readdirSync(join(this.folder, "blobs")).filter((name) => name.startsWith("doc-"))
  }

  get usage(): Promise<number> {
    return fetch(`${this.base}/v2/usage`, {
      headers: { authorization: `DeepL-Auth-Key ${this.secret}` }
    }).then(async (answer) => ((await answer.json()) as { character_count: number }).character_count)
  }
}

it("kill -9 in the middle of a document, again and again: the client that polls gets its translation whole, billed once, nothing left behind", async () => {
  const server = new Server()
  await server.up()
  const handle = await server.upload()
  let seed = 7
  for (let round = 0; round < rounds; round++) {
    await server.until(handle, "translating").catch(() => undefined)
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    await new Promise((resolve) => setTimeout(resolve, (seed >> 8) % 150))
    await server.kill()
    await server.up()
    expect(["queued", "translating", "done"]).toContain((await server.status(handle)).status)
  }
  expect(await server.until(handle, "done")).toMatchObject({ billed_characters: source.length })
  await server.kill()
  await server.up()
  const result = await server.post(handle, "/result")
  expect(await result.text()).toBe(wanted)
  await expect.poll(() => server.post(handle).then(({ status }) => status)).toBe(404)
  await expect.poll(() => server.blobs).toEqual([])
  expect(await server.usage).toBe(source.length)
  await server.kill()
  rmSync(server.folder, { recursive: true })
}, 60_000)

it("what an engine has said is not asked again: checkpoints survive the crash", async () => {
  const server = new Server()
  await server.up()
  const handle = await server.upload()
  await expect.poll(() => server.blobs.some((blob) => /\.segments\.\d+$/.test(blob))).toBe(true)
  await server.kill()
  await server.up()
  await server.until(handle, "done")
  const asked = server.child.lines
    .filter((line) => line.startsWith("batch "))
    .reduce((sum, line) => sum + Number(line.slice(6)), 0)
  expect(asked).toBeLessThan(lines.length)
  await server.kill()
  rmSync(server.folder, { recursive: true })
}, 30_000)

it("without the key nothing goes on, and after an hour the job ends in error; never stuck", async () => {
  const server = new Server()
  await server.up()
  const handle = await server.upload()
  await server.kill()
  await server.up()
  // Nobody polls: who does shows the key. Its source goes when the job has failed.
  await expect
    .poll(
      () => {
        server.child.process.stdin!.write(`${3_600_000 + 5_000}\n`)
        return server.blobs
      },
      { timeout: 10_000 }
    )
    .toEqual([])
  expect((await server.status(handle)).error_message).toMatch(/interrupted, please upload/)
  expect((await server.post(handle, "/result")).status).toBe(404)
  await server.kill()
  rmSync(server.folder, { recursive: true })
}, 30_000)

it("R6: after the download no file of the data folder holds the text", async () => {
  const server = new Server()
  await server.up()
  const handle = await server.upload()
  await server.until(handle, "done")
  // What the server deletes while it is searched holds nothing any more.
  const bytesOf = (file: string): Buffer => {
    try {
      return readFileSync(file)
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause
      return Buffer.alloc(0)
    }
  }
  const searched = (folder: string): boolean =>
    readdirSync(folder, { withFileTypes: true }).some((file) =>
      file.isDirectory()
        ? searched(join(folder, file.name))
        : ["Sentence number 5", "SENTENCE NUMBER 5", "crash.txt"].some((text) =>
            bytesOf(join(folder, file.name)).includes(text)
          )
    )
  expect(searched(server.folder)).toBe(false)
  await (await server.post(handle, "/result")).text()
  expect(searched(server.folder)).toBe(false)
  await server.kill()
  rmSync(server.folder, { recursive: true })
}, 30_000)
