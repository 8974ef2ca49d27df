/** The HTTP/1.1 client over a real socket, against a server that writes just the bytes it is told to; and
 *  against node:http as a second opinion. */
import { request } from "node:http"
import net, { type AddressInfo } from "node:net"
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest"
import { Deadlines } from "../../../../actors/engines/chat/deadlines.ts"
import { HttpClient } from "../../../../actors/engines/chat/http-client.ts"
import { headBytesMax, type ResponseHandler } from "../../../../actors/engines/chat/http1-connection.ts"
import { readHead } from "../../../../actors/engines/chat/http1-head.ts"
import { Http1Pool } from "../../../../actors/engines/chat/http1-pool.ts"

const clock = { nowMs: 0, due: [] as Array<{ readonly atMs: number; readonly fire: () => void }> }

const pass = (ms: number): void => {
  clock.nowMs += ms
  for (const { fire } of clock.due
    .splice(0)
    .filter((one) => one.atMs <= clock.nowMs || (clock.due.push(one), false)))
    fire()
}

const deadlines = new Deadlines({
  monotonicMs: () => clock.nowMs,
  timers: {
    after: (ms, fire) => {
      clock.due.push({ atMs: clock.nowMs + ms, fire })
    }
  }
})

/** What the server does with a request that has come whole. */
type Play = (wire: net.Socket, request: string) => void

let play: Play = () => {}
let opened = 0
const wires = new Set<net.Socket>()

const server = net.createServer((wire) => {
  opened++
  wires.add(wire)
  let got = ""
  wire.on("data", (data) => {
    got += data.toString("latin1")
    const end = got.indexOf("\r\n\r\n")
    const length = Number(/content-length: (\d+)/i.exec(got)?.[1] ?? 0)
    if (end < 0 || got.length < end + 4 + length) return
    const whole = got
    got = ""
    play(wire, whole)
  })
  wire.on("error", () => {})
  wire.on("close", () => wires.delete(wire))
})

let origin: Http1Pool

const originAt = (port: number): Http1Pool =>
  new Http1Pool({ url: new URL(`http://127.0.0.1:${port}`), connectMs: 1_000, deadlines })

beforeAll(async () => {
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve)
  })
  origin = originAt((server.address() as AddressInfo).port)
})

afterEach(() => {
  origin.close()
  opened = 0
})

afterAll(() => {
  for (const wire of wires) wire.destroy()
  server.close()
})

interface Told {
  readonly status: number
  readonly body: string
  readonly ended: boolean
  readonly fault: string | undefined
}

const ask = (from = origin, request = "GET / HTTP/1.1\r\nhost: x\r\n\r\n"): Promise<Told> =>
  new Promise((resolve) => {
    let status = 0
    const parts: Array<Buffer> = []
    const told = (ended: boolean, fault?: string): void =>
      resolve({ status, body: Buffer.concat(parts).toString("latin1"), ended, fault })
    from.call(request, true, {
      head: (head) => {
        status = head.status
      },
      data: (bytes, at, to) => {
        parts.push(Buffer.from(bytes.subarray(at, to)))
      },
      end: () => told(true),
      failed: (reason, detail) => told(false, `${reason}: ${detail}`)
    })
  })

const bytes = (text: string): Buffer => Buffer.from(text, "latin1")

/** RST without a FIN before it, which `resetAndDestroy` would send. Not in one wake-up with data: libuv then
 *  tells an end. */
const reset = (wire: net.Socket): void => {
  ;(wire as unknown as { readonly _handle: { reset(done: () => void): void } })._handle.reset(() => {})
}

/** In pieces, each read by itself. */
const inPieces = async (wire: net.Socket, text: string, size: number): Promise<void> => {
  for (let at = 0; at < text.length && !wire.destroyed; at += size) {
    wire.write(bytes(text.slice(at, at + size)))
    await new Promise((resolve) => {
      setImmediate(resolve)
    })
  }
}

const ok = (body: string, head = ""): string =>
  `HTTP/1.1 200 OK\r\n${head}content-length: ${body.length}\r\n\r\n${body}`

const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"

describe("answers", () => {
  const good: ReadonlyArray<readonly [name: string, text: string, body: string]> = [
    ["a counted body", ok("hello"), "hello"],
    ["nothing in it", ok(""), ""],
    ["204 has none", "HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\n", ""],
    ["chunks", `${chunked}5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n`, "hello!"],
    [
      "chunks with extensions, capital and leading digits, trailers",
      `${chunked}00A;x="y"\r\n0123456789\r\n1 \r\n!\r\n0;last\r\nx-sum: 5\r\ny: z\r\n\r\n`,
      "0123456789!"
    ],
    [
      "a chunk whose bytes look like framing",
      `${chunked}9\r\n\r\n0\r\n\r\n\r\n\r\n0\r\n\r\n`,
      "\r\n0\r\n\r\n\r\n"
    ],
    [
      "after 100 and 103",
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n${ok("late")}`,
      "late"
    ],
    ["no reason phrase", "HTTP/1.1 200\r\ncontent-length: 1\r\n\r\nx", "x"],
    ["two equal lengths", ok("twice", "Content-Length: 5\r\n"), "twice"],
    [
      "chunks win over a length",
      "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\n\r\n",
      "four"
    ],
    ["empty fields and spaces", "HTTP/1.1 200 OK\r\nx-empty:\r\ncontent-length:\t 2 \r\n\r\nok", "ok"]
  ]
  it.each(good)("%s: whole, and in pieces of every size", async (_, text, body) => {
    for (const size of [text.length, 1, 2, 3, 7, 16]) {
      play = (wire) => {
        void inPieces(wire, text, size)
      }
      expect(await ask(), `pieces of ${size}`).toMatchObject({ body, ended: true })
    }
  })
  it("without a length: until the connection ends", async () => {
    play = (wire) => {
      wire.end("HTTP/1.1 200 OK\r\n\r\nall of it")
    }
    expect(await ask()).toMatchObject({ body: "all of it", ended: true })
    play = (wire) => {
      wire.write("HTTP/1.0 200 OK\r\n\r\nnot al", () => setTimeout(reset, 20, wire))
    }
    expect(await ask()).toMatchObject({ ended: false, fault: expect.stringMatching(/^broken: /) })
  })
  const bad: ReadonlyArray<readonly [name: string, text: string]> = [
    ["not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n"],
    ["another HTTP", "HTTP/2 200 OK\r\n\r\n"],
    ["101", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
    ["a line without a colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n"],
    ["a folded line", "HTTP/1.1 200 OK\r\ncontent-type: a\r\n b\r\n\r\n"],
    ["a space before the colon", "HTTP/1.1 200 OK\r\ncontent-length : 4\r\n\r\nfour"],
    ["a name that is missing", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"],
    ["two lengths", ok("x", "content-length: 2\r\n")],
    ["a length of words", "HTTP/1.1 200 OK\r\ncontent-length: ten\r\n\r\n"],
    ["a negative length", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n"],
    ["a list of lengths", "HTTP/1.1 200 OK\r\ncontent-length: 1, 1\r\n\r\nx"],
    ["another coding", "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n"],
    [
      "chunked twice",
      "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
    ],
    ["a chunk without a size", `${chunked}\r\nx\r\n`],
    ["a size of words", `${chunked}xyz\r\n`],
    ["a size with a sign", `${chunked}+5\r\nhello\r\n0\r\n\r\n`],
    ["a size that is too large", `${chunked}123456789\r\n`],
    ["a chunk longer than its size", `${chunked}2\r\nhello\r\n0\r\n\r\n`],
    ["a head that never ends", `HTTP/1.1 200 OK\r\nx: ${"y".repeat(headBytesMax)}`],
    ["an extension that never ends", `${chunked}5;${"x".repeat(5_000)}`],
    ["a trailer that never ends", `${chunked}0\r\nx: ${"y".repeat(5_000)}`]
  ]
  it.each(bad)("%s is broken, and so is the connection", async (_, text) => {
    for (const size of [text.length, 997, ...(text.length < 200 ? [1] : [])]) {
      play = (wire) => {
        void inPieces(wire, text, size)
      }
      const before = opened
      expect(await ask()).toMatchObject({ ended: false, fault: expect.stringMatching(/^broken: /) })
      play = (wire) => {
        wire.write(ok("next"))
      }
      expect(await ask()).toMatchObject({ body: "next" })
      expect(opened - before).toBe(2)
      origin.close()
    }
  })
  it("cut short: counted, in a chunk, between chunks, in the head, before the head", async () => {
    for (const text of [
      "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
      `${chunked}9\r\nhalf`,
      `${chunked}4\r\nhalf\r\n`,
      "HTTP/1.1 200 O",
      ""
    ]) {
      play = (wire) => {
        wire.end(text)
      }
      expect(await ask()).toMatchObject({ ended: false, fault: expect.stringMatching(/^broken: /) })
    }
  })
  it("any bytes: an end or a fault, and the next call has its own answer", async () => {
    let seed = 11
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return seed % below
    }
    const seeds = [
      ...good.map(([, text]) => text),
      ...bad.map(([, text]) => text).filter((text) => text.length < 200)
    ]
    for (let i = 0; i < 300; i++) {
      const text = seeds[next(seeds.length)]!
      const at = next(text.length)
      const mutated =
        text.slice(0, at) + String.fromCharCode(next(256)).repeat(next(3)) + text.slice(at + next(4))
      play = (wire) => {
        wire.end(bytes(mutated))
      }
      const told = await ask()
      expect(told.ended || told.fault !== undefined, JSON.stringify(mutated)).toBe(true)
      play = (wire) => {
        wire.write(ok("own"))
      }
      // What was left of the last answer must never be taken for this one.
      const after = await ask()
      if (after.ended) expect(after.body, JSON.stringify(mutated)).toBe("own")
    }
  })
  it("says what node:http says, over answers made at random", async () => {
    let seed = 3
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
      return (seed >> 8) % below
    }
    const { port } = server.address() as AddressInfo
    const theirs = (): Promise<Told> =>
      new Promise((resolve) => {
        const call = request({ port, host: "127.0.0.1", agent: false }, (answer) => {
          let body = ""
          answer.setEncoding("latin1")
          answer.on("data", (data: string) => {
            body += data
          })
          answer.on("close", () =>
            resolve({ status: answer.statusCode!, body, ended: answer.complete, fault: undefined })
          )
        })
        call.on("error", (cause) => resolve({ status: 0, body: "", ended: false, fault: cause.message }))
        call.end()
      })
    for (let i = 0; i < 60; i++) {
      const chunks = Array.from({ length: next(5) }, () =>
        Array.from({ length: 1 + next(300) }, () => String.fromCharCode(next(256))).join("")
      )
      const body = chunks.join("")
      const status = [200, 201, 404, 503][next(4)]!
      const framed =
        next(2) === 0
          ? `content-length: ${body.length}\r\n\r\n${body}`
          : `transfer-encoding: chunked\r\n\r\n${chunks.map((chunk) => `${chunk.length.toString(16)}${next(2) === 0 ? ";a=b" : ""}\r\n${chunk}\r\n`).join("")}0\r\n${next(2) === 0 ? "t: v\r\n" : ""}\r\n`
      const text = `HTTP/1.1 ${status} Whatever\r\nX-${"a".repeat(next(20))}: ${"b".repeat(next(50))}\r\n${framed}`
      const size = 1 + next(400)
      play = (wire) => {
        void inPieces(wire, text, size)
      }
      expect(await ask()).toMatchObject({ status, body, ended: true })
      expect(await theirs()).toMatchObject({ status, body, ended: true })
    }
  })
})

describe("connections", () => {
  it("are used again, the last one first; not after Connection: close, HTTP/1.0 or bytes that nobody asked for", async () => {
    play = (wire) => {
      wire.write(ok("x"))
    }
    for (let i = 0; i < 5; i++) expect((await ask()).body).toBe("x")
    expect(opened).toBe(1)
    for (const [text, more] of [
      [ok("x", "Connection: Close\r\n"), 1],
      [ok("x").replace("1.1", "1.0"), 1],
      [ok("x", "connection: keep-alive\r\n").replace("1.1", "1.0"), 0],
      [`${ok("x")}HTTP/1.1 200 OK\r\n`, 1]
    ] as const) {
      play = (wire) => {
        wire.write(text)
      }
      await ask()
      const before = opened
      play = (wire) => {
        wire.write(ok("x"))
      }
      expect((await ask()).body).toBe("x")
      expect(opened - before, text).toBe(more)
    }
  })
  it("rest half a minute, or as long as the server says less a second", async () => {
    play = (wire) => {
      wire.write(ok("x"))
    }
    await ask()
    clock.nowMs += 29_999
    await ask()
    expect(opened).toBe(1)
    clock.nowMs += 30_000
    await ask()
    expect(opened).toBe(2)
    play = (wire) => {
      wire.write(ok("x", "keep-alive: timeout=5\r\n"))
    }
    await ask()
    clock.nowMs += 4_000
    await ask()
    expect(opened).toBe(3)
  })
  it("are let go after that time, though no call comes", async () => {
    const closed: Array<Promise<unknown>> = []
    play = (wire) => {
      closed.push(
        new Promise((resolve) => {
          wire.on("close", resolve)
        })
      )
      wire.write(ok("x"))
    }
    await Promise.all([ask(), ask()])
    for (let i = 0; i < 3; i++) pass(30_100)
    expect(closed.length).toBe(2)
    await Promise.all(closed)
    expect(deadlines.size).toBe(0)
  })
  it("one that the server closed at rest is not used again; one per call under way", async () => {
    play = (wire) => {
      wire.write(ok("x"))
    }
    expect((await Promise.all([ask(), ask(), ask()])).map(({ body }) => body)).toEqual(["x", "x", "x"])
    expect(opened).toBe(3)
    for (const wire of wires) wire.end()
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
    expect((await ask()).body).toBe("x")
    expect(opened).toBe(4)
  })
  it("one that ends at its next use before a byte is stale, and those that rest beside it are not trusted; a new one that ends so is broken", async () => {
    const answers: Play = (wire) => {
      wire.write(ok("x"))
    }
    for (const leave of [(wire: net.Socket) => wire.end(), reset]) {
      origin.close()
      opened = 0
      play = answers
      await Promise.all([ask(), ask(), ask()])
      play = leave
      expect(await ask()).toMatchObject({ status: 0, fault: expect.stringMatching(/^stale: /) })
      expect(await ask()).toMatchObject({ status: 0, fault: expect.stringMatching(/^broken: /) })
      expect(opened).toBe(4)
      play = answers
      await ask()
      play = (wire) => {
        wire.end("HTTP/1.1 200 O")
      }
      expect(await ask()).toMatchObject({ fault: expect.stringMatching(/^broken: /) })
    }
  })
  it("abandoned: the server sees it at once; another's word does nothing", async () => {
    const closed = new Promise<void>((resolve) => {
      play = (wire) => {
        wire.write(`${chunked}1\r\nx\r\n`)
        wire.on("close", () => resolve())
      }
    })
    let heard = 0
    const first = new Promise<void>((resolve) => {
      const hearer: ResponseHandler = {
        head: () => {},
        data: () => {
          heard++
          line.abandon(hearer)
          resolve()
        },
        end: () => {
          heard++
        },
        failed: () => {
          heard++
        }
      }
      const line = origin.call("GET / HTTP/1.1\r\nhost: x\r\n\r\n", true, hearer)
      line.abandon({ ...hearer })
    })
    await first
    await closed
    expect(heard).toBe(1)
  })
  it("paused: nothing is told but the read in hand, and the server is held up; resumed: all of it", async () => {
    const size = 8 * 1_048_576
    let buffered = 0
    play = (wire) => {
      wire.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`)
      wire.write(Buffer.alloc(size, "y"))
      setTimeout(() => {
        buffered = wire.writableLength
      }, 60)
    }
    let got = 0
    await new Promise<void>((resolve, reject) => {
      const hearer: ResponseHandler = {
        head: () => {},
        data: (_, from, to) => {
          const first = got === 0
          got += to - from
          if (first) {
            line.pause(hearer)
            setTimeout(() => {
              expect(got).toBeLessThanOrEqual(65_536)
              expect(buffered).toBeGreaterThan(0)
              line.resume(hearer)
            }, 120)
          }
        },
        end: resolve,
        failed: (_, detail) => reject(new Error(detail))
      }
      const line = origin.call("GET / HTTP/1.1\r\nhost: x\r\n\r\n", true, hearer)
    })
    expect(got).toBe(size)
  })
  it("answered before its request has gone out: not used again, for the next request would wait behind the rest of it", async () => {
    const early = net.createServer((wire) => {
      wire.on("error", () => {})
      wire.once("data", () => {
        wire.pause()
        wire.write(ok("early"))
      })
    })
    let connections = 0
    early.on("connection", () => {
      connections++
    })
    await new Promise<void>((resolve) => {
      early.listen(0, "127.0.0.1", resolve)
    })
    const there = originAt((early.address() as AddressInfo).port)
    const large = `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 30000000\r\n\r\n${"x".repeat(30_000_000)}`
    expect((await ask(there, large)).body).toBe("early")
    expect((await ask(there)).body).toBe("early")
    expect(connections).toBe(2)
    there.close()
    early.close()
  })
  it("ended by the server in the middle, the request not all out: told at once", async () => {
    const rude = net.createServer({ allowHalfOpen: true }, (wire) => {
      wire.on("error", () => {})
      wire.once("data", () => {
        wire.pause()
        wire.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
      })
    })
    await new Promise<void>((resolve) => {
      rude.listen(0, "127.0.0.1", resolve)
    })
    const there = originAt((rude.address() as AddressInfo).port)
    const told = await Promise.race([
      ask(there, `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 30000000\r\n\r\n${"x".repeat(30_000_000)}`),
      new Promise<string>((resolve) => {
        setTimeout(resolve, 1_500, "silence")
      })
    ])
    expect(told).toMatchObject({ body: "half", ended: false, fault: expect.stringMatching(/^broken: /) })
    there.close()
    rude.close()
  })
  it("closed while calls are under way: each hears it, none rests", async () => {
    play = (wire) => {
      wire.write(`${chunked}1\r\nx\r\n`)
    }
    const asked = [ask(), ask()]
    await new Promise((resolve) => {
      setTimeout(resolve, 30)
    })
    origin.close()
    for (const told of await Promise.all(asked))
      expect(told).toMatchObject({ body: "x", ended: false, fault: expect.stringMatching(/^broken: /) })
    play = (wire) => {
      wire.write(ok("xy"))
    }
    let body = ""
    await new Promise<void>((resolve) => {
      origin.call("GET / HTTP/1.1\r\nhost: x\r\n\r\n", true, {
        head: () => {},
        data: (data, from, to) => {
          body += data.toString("latin1", from, to)
          origin.close()
        },
        end: resolve,
        failed: () => resolve()
      })
    })
    expect([body, (await ask()).body]).toEqual(["xy", "xy"])
  })
  it("refused, or not made in time, are told apart", async () => {
    const closed = net.createServer()
    await new Promise<void>((resolve) => {
      closed.listen(0, "127.0.0.1", resolve)
    })
    const { port } = closed.address() as AddressInfo
    await new Promise((resolve) => {
      closed.close(resolve)
    })
    expect(await ask(originAt(port))).toMatchObject({ status: 0, fault: "broken: ECONNREFUSED" })
    // An address for documentation (RFC 5737): whatever the network does with it, the deadline is first.
    const nowhere = new Http1Pool({ url: new URL("http://192.0.2.1:9"), connectMs: 1_000, deadlines })
    const told = ask(nowhere)
    pass(1_100)
    expect((await told).fault).toMatch(
      /^connect-timeout: |^broken: E(?:NETUNREACH|HOSTUNREACH|ACCES|PERM|CONNREFUSED)$/
    )
    nowhere.close()
  })
})

describe("requests", () => {
  const limits = { connectMs: 1_000, firstMs: 1_000, idleMs: 1_000 }
  const client = (headers: Record<string, string>): HttpClient =>
    new HttpClient({
      base: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/`,
      headers,
      limits,
      deadlines
    })
  it("carry their length in bytes, whatever the letters", async () => {
    let got = ""
    play = (wire, whole) => {
      got = Buffer.from(whole, "latin1").toString("utf8")
      wire.write(bytes(ok('{"a":"\xc3\xbc"}', "content-type: application/json\r\n")))
    }
    const http = client({ authorization: "Bearer k" })
    const quiet = { aborted: false, addEventListener: () => {}, removeEventListener: () => {} }
    for (const word of ["plain", "Grüße 漢字 🎻", "x".repeat(100_000)]) {
      expect(await http.json("POST", "/x?y=1", JSON.stringify({ word }), quiet)).toEqual({ a: "ü" })
      expect(got).toBe(
        `POST /v1/x?y=1 HTTP/1.1\r\nhost: 127.0.0.1:${(server.address() as AddressInfo).port}\r\nauthorization: Bearer k\r\ncontent-length: ${Buffer.byteLength(JSON.stringify({ word }))}\r\n\r\n${JSON.stringify({ word })}`
      )
    }
    http.close()
  })
  it("an own header stands once, whatever its case, and cannot frame the body; its letters do not change with the body's", async () => {
    let got = ""
    play = (wire, whole) => {
      got = whole
      wire.write(ok("{}"))
    }
    const http = client({
      "content-type": "application/json",
      authorization: "Bearer a",
      "Content-Type": "application/json; v=2",
      Authorization: "Bearer b",
      Host: "models.example",
      "Content-Length": "1",
      "Transfer-Encoding": "chunked",
      "x-who": "J\xfcrgen"
    })
    const quiet = { aborted: false, addEventListener: () => {}, removeEventListener: () => {} }
    for (const word of ["plain", "ü"]) {
      await http.json("POST", "/x", JSON.stringify({ word }), quiet)
      expect(got.slice(0, got.indexOf("\r\n\r\n")).split("\r\n").slice(1)).toEqual([
        "host: models.example",
        "content-type: application/json; v=2",
        "authorization: Bearer b",
        "x-who: J\xc3\xbcrgen",
        `content-length: ${word === "ü" ? 13 : 16}`
      ])
    }
    http.close()
  })
  it("by name where one of its addresses has no server; by IPv6", async () => {
    play = (wire) => {
      wire.write(ok("{}"))
    }
    const quiet = { aborted: false, addEventListener: () => {}, removeEventListener: () => {} }
    const { port } = server.address() as AddressInfo
    const client = new HttpClient({ base: `http://localhost:${port}/v1`, headers: {}, limits, deadlines })
    expect(await client.json("GET", "/x", undefined, quiet)).toEqual({})
    client.close()
    const six = net.createServer((wire) => {
      wire.on("data", (data) => {
        wire.write(ok(JSON.stringify(/host: (\S+)/.exec(data.toString("latin1"))![1])))
      })
    })
    const there = await new Promise<boolean>((resolve) => {
      six.on("error", () => resolve(false))
      six.listen(0, "::1", () => resolve(true))
    })
    if (!there) return
    const http = new HttpClient({
      base: `http://[::1]:${(six.address() as AddressInfo).port}/v1`,
      headers: {},
      limits,
      deadlines
    })
    expect(await http.json("GET", "/x", undefined, quiet)).toBe(
      `[::1]:${(six.address() as AddressInfo).port}`
    )
    http.close()
    six.close()
  })
  it("a header that would break its line is refused before anything is sent", () => {
    for (const [name, value] of [
      ["x", "a\r\nb: c"],
      ["x", "a\nb"],
      ["x y", "z"],
      ["x:", "z"],
      ["", "z"],
      ["x", "\u0000"],
      ["x", "漢"]
    ] as const)
      expect(() => client({ [name]: value }), JSON.stringify([name, value])).toThrow(/cannot be sent/)
  })
})

it("a head is read in one pass, and its fields whatever their case", () => {
  expect(
    readHead(
      "HTTP/1.1 429 Too Many\r\nCONTENT-TYPE: text/event-stream; charset=utf-8\r\nRetry-After: 3\r\nKeep-Alive: max=5, timeout=10\r\ncontent-length: 0012"
    )
  ).toEqual({
    status: 429,
    type: "text/event-stream; charset=utf-8",
    retryAfter: "3",
    length: 12,
    chunked: false,
    keepAlive: true,
    keepAliveMs: 9_000
  })
})
