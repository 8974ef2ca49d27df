/** One voice connection: incoming messages are checked, metered and put into the session's mailbox; the
 *  session's events are sent in order. Hot path (bench/voice-chunk): a chunk costs one decode, a few numbers
 *  and one push; it creates no promise and no timer and allocates nothing else.
 *  Source: docs/spec/translation.md, sections 12.4 to 12.8. */
import { isRefusal } from "../problems.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import { pcmFormatOf, type PcmFormat } from "../../../actors/engines/speech/decoder.ts"
import { updateMs } from "../../../actors/voice/pipeline.ts"
import type { SessionEvent, Utterance, VoiceConfig } from "../../../actors/voice/session-types.ts"
import { VoiceSession } from "../../../actors/voice-session.ts"
import type { Socket } from "../../../runtime/http.ts"
import type { ActorSystem, Ref } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"
import type { KeyInUse, KeyRing } from "../account/keys.ts"
import type { Usage } from "../account/usage.ts"
import { chunkBytesMax, chunkMsMax, type AudioRateLimiter } from "./pace.ts"
import { codecOf, type Codec, type TranscriptSegment, type ServerMessage } from "./wire.ts"

/** Dependencies of voice sessions and connections. */
export interface VoiceDeps {
  readonly store: Store
  readonly actors: ActorSystem
  readonly engines: Engines
  readonly usage: Usage
  readonly ring: KeyRing
  /** Keyed hash of a token; only the hash is stored. */
  readonly hashToken: (token: string) => string
  readonly newToken: () => string
  readonly clock: () => number
  /** Public base address `https://host[:port]`; by default taken from the request. */
  readonly publicBase?: string
  readonly log?: (level: "warn" | "error", message: string, fields: Record<string, unknown>) => void
}

export interface SocketData {
  readonly sessionId: string
  /** The trace id of the handshake. */
  readonly traceId: string
  readonly token: string
  connection: Connection | undefined
}

/** Faults of section 12.8: error code, reason code, close code, message. */
const faults = {
  undecodable: [400, 4000401, 1007, "The message cannot be decoded or is not a map with one member."],
  unknown: [400, 4000402, 1008, "Unknown message, or a member of the wrong type."],
  audio: [400, 4000403, 1008, "The audio cannot be decoded as the declared format."],
  frame: [400, 4000404, 1003, "Wrong frame type for this session's message format."],
  multiple: [400, 4000405, 1008, "The chunk is not a multiple of the PCM frame."],
  afterEnd: [400, 4000406, 1008, "Audio after the end of source media."],
  token: [403, 4030401, 1008, "The token was used twice or is outdated."],
  idle: [408, 4080401, 1008, "No audio for 30 seconds."],
  tooLarge: [413, 4130401, 1009, "The chunk is larger than 100 kB or longer than one second."],
  tooFast: [429, 4290401, 1008, "Audio comes faster than twice real time."],
  quota: [456, 4560401, 1008, "The speech quota is used up."],
  internal: [500, 5000401, 1011, "Internal error."],
  engine: [503, 5030401, 1013, "The recogniser or translator is unavailable."]
} as const

type Fault = keyof typeof faults

const connectionMsMax = 3_600_000

/** Maximum number of messages accepted before the session has accepted the connection. */
const earlyMax = 64

/** Maximum number of unsent bytes for a slow client; above it no events are taken from the session until the
 *  socket drains. */
const behindBytesMax = 262_144

const billEveryMs = 10_000

/** What a connection asks of and reports to those that know all sessions. */
interface ConnectionEvents {
  readonly paceOf: (plain: boolean) => AudioRateLimiter
  /** All of the session's sound is recognized, and everything is sent. */
  readonly onFinished: (config: VoiceConfig) => void
  readonly onClosed: () => void
}

export class Connection {
  private readonly deps: VoiceDeps
  private readonly socket: Socket<SocketData>
  private readonly events: ConnectionEvents
  private readonly session: Ref<typeof VoiceSession>
  private readonly openedMs: number
  private early: Array<{ readonly message: Uint8Array; readonly isText: boolean }> | undefined = []
  private config: VoiceConfig | undefined
  private codec: Codec = codecOf("json")
  private pcm: PcmFormat | undefined
  private pace: AudioRateLimiter | undefined
  private sourceEnded = false
  private ended = false
  private using: KeyInUse | undefined
  private queue: Array<SessionEvent> = []
  private busy = false

  /** Concluded text sent since the last pong; the client may not have read it. */
  private unread: Array<{ readonly turn: number; readonly to: string; readonly spoken: Utterance }> = []

  private turn = 0

  /** The turn after which everything has been sent; 0 before. */
  private finishing = 0

  /** Transcripts that currently have tentative text. */
  private readonly tentative = new Set<string>()

  private readonly described = new Set<string>()

  constructor(deps: VoiceDeps, socket: Socket<SocketData>, events: ConnectionEvents) {
    this.deps = deps
    this.socket = socket
    this.events = events
    this.openedMs = deps.clock()
    const { sessionId, token } = socket.data
    this.session = deps.actors.ref(VoiceSession, sessionId)
    this.session.askNow("Connect", { token }, (answer) => {
      if (!("reply" in answer)) return this.fail("refuse" in answer ? "token" : "internal", "session", answer)
      this.begin(answer.reply.config, answer.reply.sourceEnded)
    })
  }

  private begin(config: VoiceConfig, sourceEnded: boolean): void {
    if (this.ended) return
    this.config = config
    this.codec = codecOf(config.format)
    this.pcm = pcmFormatOf(config.contentType)
    const pace = (this.pace = this.events.paceOf(this.pcm !== undefined))
    pace.join(this.openedMs)
    this.sourceEnded = sourceEnded
    this.using = this.deps.ring.byKeyId(config.accountId, config.keyId)
    const { events } = this.session.lanes
    // Messages left from an earlier connection are stale, except for the length of the audio.
    for (const event of events.takeNow()) if (event._tag === "Decoded") pace.heardMs += event.ms
    events.onReadable(() => this.pump())
    this.queue.push({ _tag: "Concluded" }) // what was concluded and not delivered comes first
    this.work()
    const early = this.early!
    this.early = undefined
    for (const { message, isText } of early) this.message(message, isText)
  }

  message(message: Uint8Array, isText: boolean): void {
    if (this.ended) return
    if (this.early !== undefined) {
      if (this.early.length < earlyMax) this.early.push({ message: message.slice(), isText })
      else this.fail("tooFast", "session")
      return
    }
    const decoded = this.codec.decode(message, isText)
    if (decoded.is === "chunk") return this.chunk(decoded.data)
    if (decoded.is === "end") return this.endSource()
    this.fail(
      decoded.is,
      decoded.is === "unknown" && decoded.name === "end_of_source_media" ? decoded.name : "source_media_chunk"
    )
  }

  private chunk(data: Uint8Array): void {
    const request = "source_media_chunk"
    if (this.sourceEnded) return this.fail("afterEnd", request)
    if (data.length > chunkBytesMax) return this.fail("tooLarge", request)
    const { pcm } = this
    let ms = 0
    if (pcm !== undefined) {
      if (data.length % pcm.frameBytes !== 0) return this.fail("multiple", request)
      ms = (data.length * 1_000) / (pcm.rate * pcm.frameBytes)
      if (ms > chunkMsMax) return this.fail("tooLarge", request)
    }
    if (!this.pace!.chunk(this.deps.clock(), ms)) return this.fail("tooFast", request)
    if (data.length === 0) return
    if (!this.session.lanes.audio.offer(data, pcm === undefined ? updateMs : ms))
      this.fail("tooFast", request)
  }

  private endSource(): void {
    if (this.sourceEnded) return
    this.sourceEnded = true
    this.session.tell("EndSource", {})
    this.session.lanes.audio.end()
  }

  /** Takes events from the session, unless the client is behind. */
  private pump(): void {
    if (this.ended || this.busy || this.socket.bufferedBytes > behindBytesMax) return
    const events = this.session.lanes.events.takeNow()
    if (events.length === 0) return
    for (const event of events) this.queue.push(event)
    this.work()
  }

  drained(): void {
    this.pump()
  }

  private work(): void {
    if (this.busy) return
    let at = 0
    const { queue } = this
    this.socket.cork(() => {
      while (at < queue.length && !this.busy && !this.ended) this.say(queue[at++]!)
    })
    queue.splice(0, at)
    if (!this.busy && queue.length === 0 && this.session.lanes.events.depth > 0)
      queueMicrotask(() => this.pump())
  }

  private say(event: SessionEvent): void {
    switch (event._tag) {
      case "Tentative":
        return this.update(event.transcript, [], [event.utterance])
      case "Media":
        return this.media(event)
      case "Decoded":
        if (!this.pace!.heard(this.deps.clock(), this.pace!.heardMs + event.ms))
          this.fail("tooFast", "source_media_chunk")
        return
      case "Fault":
        return this.fail(event.fault, event.fault === "audio" ? "source_media_chunk" : "session", event.cause)
      case "Concluded":
      case "Finished":
        this.busy = true
        this.session.askNow("Deliver", { token: this.socket.data.token }, (answer) => {
          this.busy = false
          if (this.ended) {
            // The connection closed while this was being marked as delivered; it is inserted after the text
            // already unread.
            if ("reply" in answer)
              for (const { to, spoken } of answer.reply.undelivered)
                this.unread.push({ turn: this.turn, to, spoken })
            return this.restore()
          }
          if (!("reply" in answer)) return this.fail("internal", "session", answer)
          this.socket.cork(() => {
            this.deliver(answer.reply.undelivered)
            if ((event._tag === "Finished" || answer.reply.finished) && this.finishing === 0) this.finish()
          })
          this.work()
          this.pump()
        })
    }
  }

  /** Sends consecutive events of one transcript as one message. */
  private deliver(said: ReadonlyArray<{ readonly to: string; readonly spoken: Utterance }>): void {
    if (said.length === 0) return
    this.turn++
    for (const { to, spoken } of said) this.unread.push({ turn: this.turn, to, spoken })
    for (let at = 0; at < said.length && !this.ended;) {
      const { to } = said[at]!
      let next = at
      while (next < said.length && said[next]!.to === to) next++
      this.update(
        to,
        said.slice(at, next).map(({ spoken }) => spoken),
        []
      )
      at = next
    }
    if (!this.ended) this.socket.ping(String(this.turn))
  }

  pong(payload: string): void {
    const turn = Number(payload)
    if (this.ended || payload === "" || !Number.isInteger(turn)) return
    this.unread = this.unread.filter((sent) => sent.turn > turn)
    if (turn !== this.finishing) return
    this.leave()
    this.session.tell("End", {})
    this.socket.close(1000, "end of stream")
  }

  private update(to: string, concluded: ReadonlyArray<Utterance>, tentative: ReadonlyArray<Utterance>): void {
    if (tentative.length === 0) this.tentative.delete(to)
    else this.tentative.add(to)
    const segment = ({ text, startMs, endMs, language }: Utterance): TranscriptSegment =>
      to === ""
        ? { language, text, start_time: startMs, end_time: endMs }
        : { text, start_time: startMs, end_time: endMs }
    const body = { concluded: concluded.map(segment), tentative: tentative.map(segment) }
    this.send(
      to === "" ? { source_transcript_update: body } : { target_transcript_update: { language: to, ...body } }
    )
  }

  private media({
    language,
    packets,
    headers,
    durationMs,
    text
  }: Extract<SessionEvent, { _tag: "Media" }>): void {
    const first = !this.described.has(language)
    this.described.add(language)
    this.send({
      target_media_chunk: {
        language,
        data: first ? [...headers, ...packets] : packets,
        duration: durationMs,
        text,
        ...(first
          ? {
              content_type: this.config!.mediaType,
              ...(headers.length === 0 ? {} : { headers: headers.length })
            }
          : {})
      }
    })
  }

  private finish(): void {
    const { targets, mediaTargets } = this.config!
    for (const to of this.tentative) this.update(to, [], [])
    this.send({ end_of_source_transcript: {} })
    for (const language of targets) this.send({ end_of_target_transcript: { language } })
    for (const language of mediaTargets) this.send({ end_of_target_media: { language } })
    this.send({ end_of_stream: {} })
    if (this.ended) return
    this.events.onFinished(this.config!)
    // The session ends when the client's pong shows that it has read everything; otherwise it waits for a
    // reconnect.
    this.finishing = ++this.turn
    this.socket.ping(String(this.turn))
  }

  private send(message: ServerMessage): void {
    // The socket's buffer is full: a client that does not read is disconnected, and its session can be
    // resumed.
    if (this.socket.send(this.codec.encode(message)) === "dropped" && !this.ended) {
      this.leave()
      this.socket.terminate()
      this.disconnected()
    }
  }

  private fail(fault: Fault, request: string, cause?: unknown): void {
    if (this.ended) return
    this.leave()
    const [error_code, reason_code, close, error_message] = faults[fault]
    if (error_code >= 500) {
      const { traceId, sessionId: session } = this.socket.data
      const level = error_code === 500 ? "error" : "warn"
      this.deps.log?.(level, "a voice session failed", { traceId, session, status: error_code, cause })
    }
    this.socket.send(
      this.codec.encode({ error: { request_type: request, error_code, reason_code, error_message } })
    )
    this.session.tell("End", {})
    this.socket.close(close, error_message.slice(0, 120))
  }

  /** A token was used twice, as another connection reported: the session ends. */
  misused(): void {
    this.fail("token", "session")
  }

  /** A new token has been issued: this connection closes and the session continues. */
  replaced(): void {
    if (!this.ended) {
      this.leave()
      this.restore()
      this.socket.close(4001, "replaced by a reconnect")
    }
  }

  sweep(): void {
    if (this.ended || this.pace === undefined) return
    const nowMs = this.deps.clock()
    if (this.using === undefined || this.using.key.deactivatedMs !== null)
      return this.fail("token", "session")
    if (!this.sourceEnded && this.pace.idle(nowMs)) return this.fail("idle", "session")
    if (nowMs - this.openedMs >= connectionMsMax) {
      this.leave()
      this.disconnected()
      return this.socket.close(1001, "one hour")
    }
    if (this.pace.heardMs - this.pace.billedMs >= billEveryMs && !this.bill(this.pace))
      this.fail("quota", "session")
  }

  /** Books the audio; returns false when the quota does not allow it. */
  private bill(pace: AudioRateLimiter): boolean {
    const ms = Math.round(pace.heardMs - pace.billedMs)
    if (ms <= 0 || this.using === undefined) return true
    const reserved = this.deps.usage.reserve(this.using, "speechToTextMs", ms)
    if (isRefusal(reserved)) return false
    pace.billedMs += ms
    void reserved.book(ms, this.config?.tag ?? undefined)?.catch(() => {})
    return true
  }

  private leave(): void {
    this.ended = true
    if (this.pace !== undefined) {
      this.bill(this.pace)
      this.pace.leave(this.deps.clock())
      this.session.lanes.events.onReadable(undefined)
    }
    this.events.onClosed()
  }

  private disconnected(): void {
    this.restore()
    this.session.tell("Disconnect", { token: this.socket.data.token })
  }

  private restore(): void {
    if (this.busy) return // with the answer under way, in order
    if (this.unread.length > 0)
      this.session.tell("Restore", { undelivered: this.unread.map(({ to, spoken }) => ({ to, spoken })) })
    this.unread = []
  }

  closed(): void {
    if (this.ended) return
    this.leave()
    this.disconnected()
  }
}
