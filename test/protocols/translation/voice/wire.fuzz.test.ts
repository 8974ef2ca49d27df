/** Voice messages under any bytes, JSON and MessagePack: each is a value or a fault of 12.8, none throws,
 *  none reaches into what it was not given. */
import { pack, unpack } from "msgpackr"
import { describe, expect, it } from "vitest"
import {
  codecOf,
  type ClientMessage,
  type Codec,
  type Malformed,
  type ServerMessage
} from "../../../../protocols/translation/voice/wire.ts"

/** The same numbers every time. */
const dice = (from: number) => {
  let seed = from
  return (below: number): number => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) & 0x7fffffff
    return (seed >>> 8) % below
  }
}

const sound = (next: (below: number) => number, length: number): Uint8Array =>
  Uint8Array.from({ length }, () => next(256))

/** What 12.4 says of any message, by the plain way: parse, look at it. */
const isOne = (found: ClientMessage | Malformed): void => {
  switch (found.is) {
    case "chunk":
      expect(found.data).toBeInstanceOf(Uint8Array)
      expect(Object.keys(found)).toEqual(["is", "data"])
      return
    case "unknown":
      expect(typeof found.name).toBe("string")
      expect(Object.keys(found)).toEqual(["is", "name"])
      return
    case "end":
    case "undecodable":
    case "frame":
      expect(Object.keys(found)).toEqual(["is"])
      return
    default:
      throw new Error(`neither a message nor a fault: ${JSON.stringify(found satisfies never)}`)
  }
}

const decode = (codec: Codec, bytes: Uint8Array, isText: boolean): ClientMessage | Malformed => {
  // As it comes from a socket: a view into a larger buffer, which the neighbours must not see changed.
  const around = new Uint8Array(bytes.length + 20).fill(0x22)
  around.set(bytes, 10)
  const found = codec.decode(around.subarray(10, 10 + bytes.length), isText)
  isOne(found)
  expect(Buffer.from(around.subarray(10, 10 + bytes.length)).equals(Buffer.from(bytes))).toBe(true)
  return found
}

const formats = ["json", "msgpack"] as const

describe.each(formats)("%s", (format) => {
  const codec = codecOf(format)
  const isText = format === "json"
  const write = (message: unknown): Uint8Array =>
    isText ? Buffer.from(JSON.stringify(message)) : pack(message)
  const chunk = (data: Uint8Array): Uint8Array =>
    isText
      ? write({ source_media_chunk: { data: Buffer.from(data).toString("base64") } })
      : write({ source_media_chunk: { data: Buffer.from(data) } })

  it("random bytes: 20,000 messages of up to 40 bytes, all short ones of one byte and two", () => {
    const next = dice(1)
    for (let round = 0; round < 20_000; round++) decode(codec, sound(next, next(41)), isText)
    for (let one = 0; one < 256; one++) {
      decode(codec, Uint8Array.of(one), isText)
      for (let two = 0; two < 256; two++) decode(codec, Uint8Array.of(one, two), isText)
    }
  })
  it("valid messages with bytes changed, cut, doubled or put in between", () => {
    const next = dice(2)
    const valid = [
      chunk(sound(next, 40)),
      chunk(new Uint8Array(0)),
      write({ end_of_source_media: {} }),
      write({ source_media_chunk: { data: 1 } }),
      write({ other: {} })
    ]
    for (let round = 0; round < 20_000; round++) {
      let bytes = Buffer.from(valid[next(valid.length)]!)
      for (let i = 1 + next(3); i > 0; i--) {
        const at = next(bytes.length + 1)
        bytes = [
          () => {
            const copy = Buffer.from(bytes)
            if (at < copy.length) copy[at] = next(256)
            return copy
          },
          () => bytes.subarray(0, at),
          () => Buffer.concat([bytes.subarray(0, at), bytes]),
          () => Buffer.concat([bytes.subarray(0, at), Buffer.of(next(256)), bytes.subarray(at)])
        ][next(4)]!()
      }
      decode(codec, bytes, isText)
    }
  })
  it("any sound, of every length to 200 and of 100 kB, comes back as it was", () => {
    const next = dice(3)
    for (const length of [...Array.from({ length: 201 }, (_, i) => i), 640, 6_400, 102_400]) {
      const data = sound(next, length)
      const found = decode(codec, chunk(data), isText)
      expect(found.is === "chunk" && Buffer.from(found.data).equals(Buffer.from(data)), String(length)).toBe(
        true
      )
    }
  })
  it("values of every other shape are the fault of 12.8 that fits", () => {
    for (const [message, is] of [
      [null, "undecodable"],
      [1, "undecodable"],
      ["x", "undecodable"],
      [[], "undecodable"],
      [{}, "undecodable"],
      [{ a: {}, b: {} }, "undecodable"],
      [true, "undecodable"],
      [{ a: 1 }, "unknown"],
      [{ source_media_chunk: null }, "unknown"],
      [{ source_media_chunk: [] }, "unknown"],
      [{ source_media_chunk: {} }, "unknown"],
      [{ source_media_chunk: { data: null } }, "unknown"],
      [{ source_media_chunk: { data: ["QQ=="] } }, "unknown"],
      [{ source_media_chunk: { data: { a: "QQ==" } } }, "unknown"],
      [{ end_of_source_media: "now" }, "unknown"],
      [{ ["__proto__"]: {} }, "unknown"],
      [{ constructor: {} }, "unknown"],
      [{ end_of_stream: {} }, "unknown"],
      [{ end_of_source_media: {} }, "end"]
    ] as const)
      expect(decode(codec, write(message), isText).is, JSON.stringify(message)).toBe(is)
    for (const levels of [10, 1_000, 30_000]) {
      const deep = Buffer.concat(
        isText
          ? [Buffer.from('{"a":'.repeat(levels)), Buffer.from("{}"), Buffer.from("}".repeat(levels))]
          : [Buffer.from("81a161".repeat(levels), "hex"), Buffer.of(0x80)]
      )
      expect(["undecodable", "unknown"]).toContain(decode(codec, deep, isText).is)
      expect(decode(codec, chunk(Uint8Array.of(1, 2)), isText).is).toBe("chunk")
    }
  })
  it("a message in the other kind of frame is that fault, whatever it holds", () => {
    const next = dice(4)
    for (let round = 0; round < 200; round++)
      expect(codec.decode(sound(next, next(60)), !isText)).toEqual({ is: "frame" })
  })
  it("what the server says is read by the plain reader as it was meant", () => {
    const next = dice(5)
    const read = (said: string | Uint8Array): unknown =>
      typeof said === "string" ? JSON.parse(said) : unpack(said)
    const texts = ["", "a\u0000b", '\u2028"\\', "💜", "x".repeat(70_000), "\ud83d"]
    for (const text of texts) {
      const segment = { text, start_time: next(1_000_000), end_time: next(1_000_000), language: "en" }
      const messages: ReadonlyArray<ServerMessage> = [
        { source_transcript_update: { concluded: [segment], tentative: [] } },
        { target_transcript_update: { language: "de", concluded: [], tentative: [segment, segment] } },
        { end_of_stream: {} },
        { error: { request_type: "unknown", error_code: 400, reason_code: 4_000_401, error_message: text } }
      ]
      for (const message of messages) {
        const said = codec.encode(message)
        expect(typeof said).toBe(isText ? "string" : "object")
        if (isText || text !== "\ud83d") expect(read(said)).toEqual(message)
      }
    }
    const data = [sound(next, 300), new Uint8Array(0)]
    const media = read(
      codec.encode({ target_media_chunk: { language: "de", data, duration: 20, text: null } })
    ) as { readonly target_media_chunk: { readonly data: ReadonlyArray<string | Uint8Array> } }
    expect(
      media.target_media_chunk.data.map((packet) =>
        Buffer.from(packet as string, isText ? "base64" : undefined).toString("hex")
      )
    ).toEqual(data.map((packet) => Buffer.from(packet).toString("hex")))
  })
})

describe("JSON's short way through the bytes", () => {
  it("agrees with the plain way on 20,000 texts near a chunk", () => {
    const next = dice(6)
    const json = codecOf("json")
    const alphabet = [
      "A",
      "Q",
      "=",
      "==",
      "/",
      "+",
      "-",
      "_",
      " ",
      "\\u0041",
      "\\n",
      '"',
      "}",
      "\n",
      "é",
      "QUJD",
      "\\/"
    ]
    const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/
    for (let round = 0; round < 20_000; round++) {
      let data = ""
      for (let i = next(7); i > 0; i--) data += alphabet[next(alphabet.length)]
      const text = `{"source_media_chunk":{"data":"${data}"}}`
      let plain: unknown
      try {
        const value = JSON.parse(text) as any
        const found = value.source_media_chunk?.data
        if (Object.keys(value).length !== 1) plain = { is: "undecodable" }
        else if (typeof found === "string" && base64.test(found))
          plain = { is: "chunk", data: Buffer.from(found, "base64").toString("hex") }
        else plain = { is: "unknown", name: "source_media_chunk" }
      } catch {
        plain = { is: "undecodable" }
      }
      const quick = decode(json, Buffer.from(text), true)
      expect([
        text,
        quick.is === "chunk" ? { is: "chunk", data: Buffer.from(quick.data).toString("hex") } : quick
      ]).toEqual([text, plain])
    }
  })
})
