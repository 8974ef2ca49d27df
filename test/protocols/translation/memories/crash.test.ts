import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { buildChild, startChild, type Child } from "../../../child.ts"
import { tmxOf } from "./tmx-files.ts"

let program: string
const folders: Array<string> = []

beforeAll(async () => {
  program = await buildChild("test/protocols/translation/memories/memory-child.ts")
})

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

const world = () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-memory-"))
  folders.push(folder)
  let child: Child
  let base = ""
  let secret = ""
  return {
    up: async (): Promise<void> => {
      child = startChild(program, [folder])
      const [port, key] = (await child.line(/^\d+ /)).split(" ") as [string, string]
      base = `http://127.0.0.1:${port}`
      secret = key
    },
    kill: async (): Promise<void> => {
      child.process.kill("SIGKILL")
      await child.exited
    },
    call: async (method: string, path: string, body?: unknown): Promise<any> => {
      const answer = await fetch(`${base}${path}`, {
        method,
        headers: { Authorization: `DeepL-Auth-Key ${secret}`, "Content-Type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) })
      })
      expect(answer.status).toBeLessThan(300)
      return answer.json()
    },
    put: (address: string, body: string): Promise<Response> =>
      fetch(`${base}${new URL(address).pathname}`, {
        method: "PUT",
        headers: { "Content-Type": "application/xml" },
        body
      }),
    rssMb: async (): Promise<number> => {
      child.lines.length = 0
      child.process.stdin!.write("?")
      return Number((await child.line(/^memory /)).split(" ")[1])
    }
  }
}

const settled = async (node: ReturnType<typeof world>, jobId: string): Promise<any> => {
  for (;;) {
    const {
      results: [result]
    } = await node.call("GET", `/v3/translation_memories/jobs/${jobId}`)
    if (result.status !== "processing") return result
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

it("kill -9 in the middle of an import job: what was accepted is finished after the restart, whole and once", async () => {
  const node = world()
  const file = tmxOf(
    Array.from({ length: 20_000 }, (_, i) => ({
      de: `Satz Nummer ${i % 19_000}`,
      en: `Sentence number ${i}`
    }))
  )
  await node.up()
  const { job_id, upload_url } = await node.call("POST", "/v3/translation_memories/import", {
    source_file: { file_name: "a.tmx", content_length: Buffer.byteLength(file) }
  })
  await node.kill() // the declaration was answered
  await node.up()
  expect((await node.put(upload_url, file)).status).toBe(200)
  let cuts = 0
  for (let round = 0; round < 6; round++) {
    await new Promise((resolve) => setTimeout(resolve, 20 + ((37 * round) % 90)))
    const {
      results: [result]
    } = await node.call("GET", `/v3/translation_memories/jobs/${job_id}`)
    if (result.status === "processing") cuts++
    else expect(result.status).toBe("completed")
    await node.kill()
    await node.up()
  }
  expect(cuts).toBeGreaterThan(0)
  const result = await settled(node, job_id)
  expect(result).toMatchObject({ status: "completed", skipped_segment_count: 0 })
  const memory = `/v3/translation_memories/${result.translation_memory_id}`
  expect((await node.call("GET", memory)).segment_count).toBe(19_000)
  const seen: Array<string> = []
  for (let cursor: string | undefined = ""; cursor !== undefined;) {
    const page: any = await node.call(
      "GET",
      `${memory}/segments?page_size=100${cursor === "" ? "" : `&page_cursor=${encodeURIComponent(cursor)}`}`
    )
    for (const { source_text, targets } of page.segments)
      seen.push(`${source_text} ${targets[0].target_text}`)
    cursor = page.next_page_cursor
  }
  expect(seen).toEqual(
    Array.from({ length: 19_000 }, (_, i) => `Satz Nummer ${i} Sentence number ${i < 1_000 ? i + 19_000 : i}`)
  )
  await node.kill()
}, 120_000)

it("a memory of 100,000 segments is imported, searched and exported within bounded memory", async () => {
  const node = world()
  const words = "contract party court term price delivery payment right notice law".split(" ")
  const file = tmxOf(
    Array.from({ length: 100_000 }, (_, i) => ({
      de: `Klausel ${i}: ${words[i % 10]} ${words[i % 7]} ${words[i % 3]} ${(i * 7919) % 100_003}`,
      en: `Clause ${i}`
    }))
  )
  await node.up()
  const before = await node.rssMb()
  const { job_id, upload_url } = await node.call("POST", "/v3/translation_memories/import", {
    source_file: { file_name: "a.tmx", content_length: Buffer.byteLength(file) }
  })
  expect((await node.put(upload_url, file)).status).toBe(200)
  const { translation_memory_id: id } = await settled(node, job_id)
  const text = "Klausel 77777: price contract term 5"
  const {
    translations: [found]
  } = await node.call("POST", "/v2/translate", {
    text: [text],
    source_lang: "de",
    target_lang: "en-US",
    translation_memory_id: id,
    translation_memory_threshold: 60
  })
  expect(found.text).toMatch(/^Clause \d+$/)
  const exported = await node.call("POST", `/v3/translation_memories/${id}/export`)
  const { download_url } = await settled(node, exported.job_id)
  expect((await (await fetch(download_url)).text()).match(/<tu>/g)).toHaveLength(100_000)
  expect((await node.rssMb()) - before).toBeLessThan(300)
  await node.kill()
}, 120_000)
