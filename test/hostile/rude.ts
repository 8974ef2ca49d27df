/** Clients that do not behave: slow, silent, vanishing, talking nonsense, on raw sockets and WebSockets.
 *  Guarantee: each visit ends, and its socket with it, within `visitMsMax`. */
import { randomBytes } from "node:crypto"
import net from "node:net"
import { endless } from "./models.ts"
import type { Accounts } from "./preparation.ts"
import { Tally, type TallyReport } from "./tally.ts"
import { answerIn, bytesOf } from "./wire.ts"

export interface RudeSettings {
  readonly port: number
  readonly accounts: Accounts
}

const visitMsMax = 20_000

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms)
  })

const random = (below: number): number => Math.floor(Math.random() * below)

/** One visit: a socket, what came over it, and whether it is over. */
class Visit {
  readonly socket: net.Socket
  readonly closed: Promise<void>
  isOver = false
  private received: Buffer = Buffer.alloc(0)

  constructor(port: number) {
    this.socket = net.connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true })
    this.socket.on("error", () => {})
    this.socket.on("data", (bytes) => {
      if (this.received.length < 2 ** 16) this.received = Buffer.concat([this.received, bytes])
    })
    this.closed = new Promise((resolve) => {
      const end = (): void => {
        this.isOver = true
        this.socket.destroy()
        resolve()
      }
      const timer = setTimeout(end, visitMsMax)
      this.socket.on("end", end)
      this.socket.on("close", () => {
        clearTimeout(timer)
        end()
      })
    })
  }

  write(data: string | Buffer): void {
    if (!this.isOver) this.socket.write(data)
  }

  /** Returns the first answer, when it came whole. */
  get answer() {
    return answerIn(this.received, false)
  }

  get text(): string {
    return this.received.toString("latin1")
  }

  leave(): void {
    this.socket.destroy()
  }
}

type Behaviour = (visit: Visit, settings: RudeSettings) => Promise<void> | void

const translateHead = ({ accounts }: RudeSettings, length: number): string =>
  `POST /v2/translate HTTP/1.1\r\nHost: localhost\r\nAuthorization: DeepL-Auth-Key ${accounts.translationKey}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

const documentHead = ({ accounts }: RudeSettings, length: number): string =>
  `POST /v2/document HTTP/1.1\r\nHost: localhost\r\nAuthorization: DeepL-Auth-Key ${accounts.translationKey}\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${length}\r\n\r\n`

const chatStream = ({ accounts }: RudeSettings, content: string): Buffer =>
  bytesOf({
    method: "POST",
    path: "/v1/chat/completions",
    headers: { Authorization: `Bearer ${accounts.chatKey}`, "Content-Type": "application/json" },
    body: JSON.stringify({ model: "main/model", stream: true, messages: [{ role: "user", content }] })
  })

const slowly = async (visit: Visit, text: string, everyMs: number): Promise<void> => {
  for (const letter of text) {
    if (visit.isOver) return
    visit.write(letter)
    await wait(everyMs)
  }
}

const slow: ReadonlyArray<Behaviour> = [
  (visit, settings) => slowly(visit, translateHead(settings, 9), 300),
  async (visit, settings) => {
    visit.write(translateHead(settings, 1_000))
    await slowly(visit, "x".repeat(1_000), 300)
  },
  async (visit, settings) => {
    visit.write(documentHead(settings, 1_000_000))
    await slowly(visit, "--b\r\n".repeat(1_000), 300)
  },
  () => wait(visitMsMax)
]

const neverReading: ReadonlyArray<Behaviour> = [
  async (visit, settings) => {
    visit.socket.pause()
    visit.write(chatStream(settings, endless))
    await wait(visitMsMax / 2)
  },
  async (visit) => {
    visit.socket.pause()
    for (let i = 0; i < 50; i++) visit.write("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await wait(visitMsMax / 2)
  }
]

const malformed: ReadonlyArray<string | Buffer> = [
  "GET\r\n\r\n",
  "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
  "GET / HTTP/1.1\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
  "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
  "POST /v2/translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
  "POST /v2/translate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
  `GET /${"x".repeat(20_000)} HTTP/1.1\r\nHost: x\r\n\r\n`,
  `GET / HTTP/1.1\r\nHost: x\r\nA: ${"x".repeat(40_000)}\r\n\r\n`,
  `GET / HTTP/1.1\r\nHost: x\r\n${"a: b\r\n".repeat(500)}\r\n`,
  "GET /%ZZ HTTP/1.1\r\nHost: x\r\n\r\n",
  "GET /v2/\0 HTTP/1.1\r\nHost: x\r\n\r\n",
  "GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
  "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
  "CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
  Buffer.alloc(5_000)
]

/** Nonsense of a fixed list, or bytes by chance. */
const talkNonsense: Behaviour = async (visit) => {
  const i = random(malformed.length + 2)
  visit.write(malformed[i] ?? randomBytes(1 + random(3_000)))
  await Promise.race([visit.closed, wait(1_000)])
}

const vanishing: ReadonlyArray<Behaviour> = [
  async (visit, settings) => {
    visit.write(documentHead(settings, 500_000))
    visit.write(
      `--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${"x".repeat(random(200_000))}`
    )
    await wait(random(50))
  },
  async (visit, settings) => {
    visit.write(chatStream(settings, "a question that nobody waits for"))
    await wait(random(30))
  },
  async (visit, settings) => {
    visit.write(translateHead(settings, 70))
    visit.write('{"text":["a"],')
    await wait(random(20))
    visit.socket.end()
    await Promise.race([visit.closed, wait(2_000)])
  },
  async (visit, settings) => {
    visit.write(chatStream(settings, "a question that nobody waits for"))
    visit.socket.end()
    await Promise.race([visit.closed, wait(2_000)])
  },
  async (visit, settings) => {
    visit.write(chatStream(settings, "a question that nobody waits for"))
    await wait(random(30))
    visit.socket.resetAndDestroy()
  }
]

const upgrade = (path: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`

/** A masked frame; the mask is zero, so the bytes stay. */
const frame = (first: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(8)
  head[0] = first
  head[1] = 0x80 | 126
  head.writeUInt16BE(payload.length, 2)
  return Buffer.concat([head, payload])
}

const chunk = (data: string): Buffer => Buffer.from(JSON.stringify({ source_media_chunk: { data } }))

const badFrames: ReadonlyArray<Buffer> = [
  Buffer.from([0x81, 0x05, 1, 2, 3, 4, 5]),
  Buffer.from([0xff, 0x80, 0, 0, 0, 0]),
  Buffer.from([0x83, 0x80, 0, 0, 0, 0]),
  Buffer.from([0x80, 0x80, 0, 0, 0, 0]),
  frame(0x81, Buffer.from([0xff, 0xfe, 0xc0])),
  frame(0x81, Buffer.from("no json")),
  frame(0x81, Buffer.from("{}")),
  frame(0x82, randomBytes(500)),
  frame(0x81, chunk("%%%")),
  Buffer.from([0x81, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
  frame(0x01, Buffer.from("never ends"))
]

/** A session of live voice; undefined when none was granted. */
const sessionPath = async ({ port, accounts }: RudeSettings): Promise<string | undefined> => {
  const answer = await fetch(`http://localhost:${port}/v3/voice/realtime`, {
    method: "POST",
    headers: {
      Authorization: `DeepL-Auth-Key ${accounts.translationKey}`,
      "Content-Type": "application/json"
    },
    body: JSON.stringify({
      source_media_content_type: "audio/pcm;encoding=s16le;rate=16000",
      source_language: "en",
      target_languages: ["de"]
    })
  }).catch(() => undefined)
  if (answer?.status !== 200) {
    await answer?.arrayBuffer().catch(() => {})
    return undefined
  }
  const { streaming_url, token } = (await answer.json()) as Record<string, string>
  return `${new URL(streaming_url!).pathname}?token=${encodeURIComponent(token!)}`
}

const wrongToken: Behaviour = async (visit) => {
  visit.write(upgrade(`/v3/voice/realtime/connect?token=${randomBytes(12).toString("hex")}`))
  await Promise.race([visit.closed, wait(1_000)])
}

/** Bad frames, silence, or sound and then nobody. */
const spoilSession: Behaviour = async (visit, settings) => {
  const path = await sessionPath(settings)
  if (path === undefined) return wait(1_000)
  visit.write(upgrade(path))
  for (let waitedMs = 0; !visit.text.includes(" 101 ") && waitedMs < 5_000 && !visit.isOver; waitedMs += 20)
    await wait(20)
  const kind = random(4)
  if (kind === 0) return Promise.race([visit.closed, wait(8_000)])
  if (kind === 1) {
    visit.write(frame(0x81, chunk(Buffer.alloc(6_400).toString("base64"))))
    await wait(500)
    return
  }
  for (let i = 0; i < kind; i++) visit.write(badFrames[random(badFrames.length)]!)
  await Promise.race([visit.closed, wait(3_000)])
}

/** How many at once, and how long each rests between two visits. */
const crowd: ReadonlyArray<readonly [count: number, restMs: number, behave: Behaviour]> = [
  ...slow.map((behave) => [15, 100, behave] as const),
  ...neverReading.map((behave) => [5, 500, behave] as const),
  [3, 30, talkNonsense],
  ...vanishing.map((behave) => [1, 100, behave] as const),
  [2, 100, wrongToken],
  [1, 2_000, spoilSession]
]

export class Rude {
  private readonly tally = new Tally()
  private readonly visits = new Set<Visit>()
  private isOver = false

  constructor(settings: RudeSettings) {
    for (const [count, restMs, behave] of crowd)
      for (let i = 0; i < count; i++) void this.come(settings, restMs, behave)
  }

  report(): TallyReport {
    return this.tally.report()
  }

  close(): void {
    this.isOver = true
    for (const visit of this.visits) visit.leave()
  }

  private async come(settings: RudeSettings, restMs: number, behave: Behaviour): Promise<void> {
    await wait(random(1_000))
    while (!this.isOver) {
      const visit = new Visit(settings.port)
      this.visits.add(visit)
      this.tally.sent++
      await behave(visit, settings)
      visit.leave()
      await visit.closed
      this.visits.delete(visit)
      this.tally.count(visit.answer, "")
      await wait(restMs)
    }
  }
}
