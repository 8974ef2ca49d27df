/** Uploads to the shipped program that are refused before they were read, on every route that streams its
 *  body, over both adapters: the process lives, and a neighbour is answered meanwhile. */
import net from "node:net"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { Program, type Secrets } from "./program.ts"

/** The requests without a body: one for each refusal of each route. */
const requestsOf = ({ developerKey, storeToken }: Secrets): ReadonlyArray<readonly [string, string]> => {
  const key = `Authorization: DeepL-Auth-Key ${developerKey}`
  const multipart = "Content-Type: multipart/form-data; boundary=b"
  return [
    ["POST /v2/document", multipart],
    ["POST /v2/document", `${multipart}\r\n${key}x`],
    ["POST /v2/document", key],
    ["PUT /v1/assets/voice/none/upload", "Content-Type: audio/wav"],
    ["PUT /v1/assets/voice/none/upload?X-Signature=none", key],
    ["PUT /v3/assets/translation_memories/none/upload/none", "Content-Type: application/xml"],
    ["POST /api/v1/products.json", "Content-Type: application/json"],
    ["POST /api/v1/products.json", `Content-Type: application/json\r\nX-STORE-Auth-Token: ${storeToken}x`],
    ["PUT /api/v1/products/1", `Content-Type: text/plain\r\nX-STORE-Auth-Token: ${storeToken}`],
    ["POST /v1/chat/completions", "Content-Type: application/json"],
    ["POST /oauth/token", "Content-Type: application/x-www-form-urlencoded"],
    ["POST /v2/translate", "Content-Type: application/json"],
    ["POST /nowhere", "Content-Type: text/plain"]
  ]
}

interface Upload {
  readonly port: number
  readonly head: string
  readonly bytes: number
  readonly pieces: number
  readonly halfCloses: boolean
}

/** Sends the request and its body until it is answered or cut, and resolves with the status, 0 when cut. */
const upload = ({ port, head, bytes, pieces, halfCloses }: Upload): Promise<number> =>
  new Promise((resolve) => {
    const wire = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true })
    let isOver = false
    const finish = (status: number): void => {
      isOver = true
      wire.destroy()
      resolve(status)
    }
    wire.on("data", (data) => finish(Number(/^HTTP\/1\.1 (\d+)/.exec(data.toString("latin1"))?.[1] ?? 0)))
    for (const event of ["error", "end", "close"]) wire.on(event, () => finish(0))
    const send = async (): Promise<void> => {
      wire.write(`${head}\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`)
      const piece = Buffer.alloc(bytes / pieces, "a")
      for (let i = 0; i < pieces && !isOver; i++) await new Promise((next) => wire.write(piece, next))
      if (halfCloses && !isOver) wire.end()
    }
    void send()
  })

describe.each(["uws", "node"])("G-2 over %s", (adapter) => {
  let program: Program
  let requests: ReturnType<typeof requestsOf>
  beforeAll(async () => {
    program = await Program.start({
      env: { TROUPE_ADAPTER: adapter, APERTIUM: "off", STT_MAX_SESSIONS: "0" }
    })
    requests = requestsOf(await program.secrets())
  })
  afterAll(() => program?.close())

  it.each([100_000, 200_000, 3_000_000, 30_000_000])("bodies of %i bytes", async (bytes) => {
    for (const [line, fields] of requests)
      for (const [pieces, halfCloses] of [
        [1, false],
        [20, false],
        [1, true]
      ] as const) {
        const head = `${line} HTTP/1.1\r\n${fields}`
        const [status, neighbour] = await Promise.all([
          upload({ port: program.port, head, bytes, pieces, halfCloses }),
          fetch(`${program.url}/livez`).then((answer) => answer.status)
        ])
        expect(status === 0 || (status >= 400 && status < 500), `${line}: ${status}`).toBe(true)
        expect(neighbour).toBe(200)
      }
    expect([program.isAlive, program.log]).toEqual([true, expect.not.stringContaining("accessed after")])
  })

  it("429 of an account whose rate is spent", async () => {
    const { developerKey } = await program.secrets()
    const headers = { Authorization: `DeepL-Auth-Key ${developerKey}` }
    const spend = async (): Promise<void> => {
      await Promise.all(Array.from({ length: 250 }, () => fetch(`${program.url}/v2/usage`, { headers })))
    }
    await spend()
    const head = `POST /v2/document HTTP/1.1\r\nAuthorization: ${headers.Authorization}\r\nContent-Type: multipart/form-data; boundary=b`
    const statuses = await Promise.all([
      spend().then(() => 0),
      ...[200_000, 3_000_000].map((bytes) =>
        upload({ port: program.port, head, bytes, pieces: 1, halfCloses: false })
      )
    ])
    for (const status of statuses) expect([0, 400, 429]).toContain(status)
    expect((await fetch(`${program.url}/livez`)).status).toBe(200)
  })
})
