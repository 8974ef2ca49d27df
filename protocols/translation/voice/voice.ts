/** Voice in real time: the session over REST, its stream over a WebSocket. A connection owns pace, codec and
 *  the order on the wire; everything else belongs to the session's actor.
 *  Source: docs/spec/translation.md, section 12. */
import { randomUUID } from "node:crypto"
import { Effect, Option } from "effect"
import type { RecognizerClaim, RecognizerLease } from "../../../actors/engines/ports.ts"
import { decoderFor } from "../../../actors/engines/speech/decoder.ts"
import { encoderFor } from "../../../actors/engines/speech/encoder.ts"
import { connectWithinMs, VoiceSession, VoiceTokens } from "../../../actors/voice-session.ts"
import { leaseMs, liveClaim } from "../../../actors/voice/pipeline.ts"
import type { VoiceConfig } from "../../../actors/voice/session-types.ts"
import {
  askLater,
  flatMapLater,
  json,
  type Answer,
  type Later,
  type Request,
  type Response,
  type Route,
  type SocketRoute
} from "../../../runtime/http.ts"
import { readBody, readForm } from "../../shared/body.ts"
import { Params } from "../../shared/params.ts"
import { Glossaries } from "../glossaries/records.ts"
import type { Guard, Guarded } from "../account/guard.ts"
import { pairFor, sourceOf, targetOf, voiceMediaTargets, voiceSources, voiceTargets } from "../languages.ts"
import { isRefusal, problem } from "../problems.ts"
import { SpokenTermsTable } from "./spoken-terms.ts"
import { usedOf } from "../account/usage.ts"
import { Connection, type SocketData, type VoiceDeps } from "./connection.ts"
import { AudioRateLimiter } from "./pace.ts"
import { isUuid } from "../../shared/uuid.ts"
import { readReportingTag } from "../reporting-tag.ts"

export const sessionsPerAccountMax = 20
const bodyBytesMax = 65_536
const path = "/v3/voice/realtime"

/** Maximum message size in bytes: base64 of 100 kB and the JSON around it (section 19, item 5). */
const messageBytesMax = 262_144

const sweepMs = 1_000

/** A returning session waits so long for a recognizer. */
const reclaimMs = 5_000

const down = (cause: unknown): Response => problem({ _tag: "Down", status: 503, cause })

const noStore = [["Cache-Control", "no-store"]] as const

const formalities = {
  default: "default",
  formal: "more",
  more: "more",
  informal: "less",
  less: "less"
} as const

export class Voice {
  private readonly deps: VoiceDeps
  private readonly connections = new Map<string, Connection>()

  /** Sessions that take sound, by account. */
  private readonly sessions = new Map<string, Set<string>>()

  /** What the sessions that take sound claim, by session. */
  private readonly claims = new Map<string, RecognizerClaim>()

  private readonly paces = new Map<string, AudioRateLimiter>()
  private readonly sweeping: NodeJS.Timeout

  constructor(deps: VoiceDeps) {
    this.deps = deps
    this.sweeping = setInterval(() => this.sweep(), sweepMs)
    this.sweeping.unref()
  }

  /** Checks every connection once a second, instead of using a timer for each. */
  sweep(): void {
    const { places } = this.deps.engines.recognizer
    for (const [sessionId, connection] of this.connections) {
      connection.sweep()
      // A client that is there keeps its recognizer.
      places.held(sessionId)?.renew(leaseMs)
    }
  }

  close(): void {
    clearInterval(this.sweeping)
  }

  routes(guard: Guard): ReadonlyArray<Route> {
    return [
      {
        method: "POST",
        path,
        body: { as: "buffer", bytesMax: bodyBytesMax },
        handle: guard(undefined, this.create)
      },
      { method: "GET", path, handle: guard(undefined, this.renew) }
    ]
  }

  get socket(): SocketRoute<SocketData> {
    return {
      path: `${path}/connect`,
      messageBytesMax,
      bufferedBytesMax: 4 * 1_048_576,
      upgrade: (request) => this.upgrade(request),
      open: (socket) => {
        const { sessionId } = socket.data
        const connection = new Connection(this.deps, socket, {
          paceOf: (plain) => this.paceOf(sessionId, plain),
          onFinished: ({ accountId }) => this.finished(sessionId, accountId),
          onClosed: () => {
            if (this.connections.get(sessionId) === connection) this.connections.delete(sessionId)
          }
        })
        socket.data.connection = connection
        this.connections.get(sessionId)?.misused()
        this.connections.set(sessionId, connection)
        this.deps.engines.recognizer.places.held(sessionId)?.renew(leaseMs)
      },
      message: (socket, message, isText) => socket.data.connection!.message(message, isText),
      pong: (socket, payload) => socket.data.connection?.pong(payload),
      drain: (socket) => socket.data.connection!.drained(),
      close: (socket) => socket.data.connection?.closed()
    }
  }

  private paceOf(sessionId: string, plain: boolean): AudioRateLimiter {
    const existing = this.paces.get(sessionId)
    if (existing !== undefined) return existing
    const pace = new AudioRateLimiter(this.deps.clock(), plain)
    this.paces.set(sessionId, pace)
    this.deps.actors.watch("voice-session", sessionId, () => this.paces.delete(sessionId))
    return pace
  }

  private readonly create: Guarded = (request, using) => {
    if (using.account.tier === "free") return problem({ _tag: "Forbidden" })
    const read = readBody(request.headers.get("content-type"), request.body)
    if ("_tag" in read) return problem(read)
    const tag = readReportingTag(request.headers.get("x-deepl-reporting-tag"))
    if (isRefusal(tag)) return problem(tag)
    const config = this.configOf(new Params(read.bag), using.account.accountId, using.key.keyId, tag ?? null)
    if ("status" in config) return config
    const { accountId } = using.account
    const live = this.sessions.get(accountId) ?? new Set<string>()
    if (live.size >= sessionsPerAccountMax) return problem({ _tag: "Limited", retryAfterMs: 10_000 })
    const { account, key } = this.deps.usage.read(using)
    const full = (limit: number | null, used: number): boolean => limit !== null && used >= limit
    if (full(using.account.limits.speechToTextMs, usedOf(account, "speechToTextMs")))
      return problem({ _tag: "QuotaExceeded", owner: "account" })
    if (full(using.key.limits.speechToTextMs, usedOf(key, "speechToTextMs")))
      return problem({ _tag: "QuotaExceeded", owner: "key" })
    const { recognizer } = this.deps.engines
    const readiness = recognizer.readiness()
    if (!readiness.ready) return down(readiness)
    const sessionId = randomUUID()
    const claim = liveClaim(sessionId, config)
    const lease = recognizer.places.reserve(claim)
    if (lease === undefined) return down("no recognizer is free")
    lease.renew(connectWithinMs)
    this.claims.set(sessionId, claim)
    const token = this.deps.newToken()
    this.sessions.set(accountId, live.add(sessionId))
    const ended = (): void => {
      lease.release()
      this.finished(sessionId, accountId)
    }
    this.deps.actors.watch("voice-session", sessionId, ended)
    return new Promise((resolve) =>
      this.deps.actors
        .ref(VoiceSession, sessionId)
        .askNow("Create", { config, token: this.deps.hashToken(token) }, (answer) => {
          if ("reply" in answer) return resolve(this.opened(request, sessionId, token))
          ended()
          resolve(down(answer))
        })
    )
  }

  /** The session takes no more sound: it needs no recognizer, and is none of the account's live sessions. */
  private finished(sessionId: string, accountId: string): void {
    this.claims.delete(sessionId)
    const live = this.sessions.get(accountId)
    if (live?.delete(sessionId) === true && live.size === 0) this.sessions.delete(accountId)
  }

  private opened(request: Request, sessionId: string, token: string): Response {
    const base = (this.deps.publicBase ?? `${request.scheme}://${request.headers.get("host") ?? "localhost"}`)
      .replace(/^http/i, "ws")
      .replace(/\/+$/, "")
    return json(200, { streaming_url: `${base}${path}/connect`, token, session_id: sessionId }, noStore)
  }

  private configOf(
    params: Params,
    accountId: string,
    keyId: string,
    tag: string | null
  ): VoiceConfig | Response {
    const { recognizer, translator, synthesizer } = this.deps.engines
    const invalid = (name: string, detail?: string) =>
      problem({ _tag: "Invalid", name, ...(detail === undefined ? {} : { detail }) })
    const contentType = params.string("source_media_content_type")
    if (contentType === undefined || contentType === "")
      return problem({ _tag: "Missing", name: "source_media_content_type" })
    if (decoderFor(contentType) === undefined) return invalid("source_media_content_type")
    const format = params.choice("message_format", ["json", "msgpack"]) ?? "json"
    const mode = params.choice("source_language_mode", ["auto", "fixed"]) ?? "auto"
    const formality =
      params.choice("formality", Object.keys(formalities) as Array<keyof typeof formalities>) ?? "default"
    const voice = params.choice("target_media_voice", ["male", "female"]) ?? null
    const sourceLanguage = params.string("source_language") ?? null
    const listed = params.strings("target_languages") ?? []
    const media = params.strings("target_media_languages") ?? []
    const mediaType = params.string("target_media_content_type") ?? "audio/webm;codecs=opus"
    if (params.fault !== undefined) return problem(params.fault)

    const hears = recognizer.languages().map((code) => code.split("-")[0]!)
    const source = sourceLanguage === null ? undefined : sourceOf(sourceLanguage)
    if (
      sourceLanguage !== null &&
      (source === undefined || !voiceSources.has(source.code) || !hears.includes(source.base))
    )
      return invalid("source_language")
    if (mode === "fixed" && source === undefined) return problem({ _tag: "Missing", name: "source_language" })
    const targets: Array<string> = []
    const isTarget = (spelled: string) =>
      targets.some((target) => target.toLowerCase() === spelled.toLowerCase())
    for (const spelled of [...listed, ...media]) if (!isTarget(spelled)) targets.push(spelled)
    if (targets.length > 5)
      return invalid("target_languages", "at most 5 target languages, those of media included")
    if (media.length > 1) return invalid("target_media_languages", "at most one")
    const sources = source === undefined ? hears : [source.base]
    for (const spelled of targets) {
      const target = targetOf(spelled)
      const name = listed.includes(spelled) ? "target_languages" : "target_media_languages"
      if (target === undefined || !(voiceTargets.has(target.code) || voiceTargets.has(target.base)))
        return invalid(name)
      if (!sources.some((from) => from === target.base || pairFor(translator, from, target) !== undefined))
        return invalid(name)
    }
    for (const spelled of media) {
      const target = targetOf(spelled)!
      if (
        !(voiceMediaTargets.has(target.code) || voiceMediaTargets.has(target.base)) ||
        !synthesizer.languages().includes(target.base)
      )
        return invalid("target_media_languages")
    }
    if (encoderFor(mediaType) === undefined) return invalid("target_media_content_type")
    const { store } = this.deps
    const idOf = (name: string) => params.string(name)?.toLowerCase() ?? ""
    const glossaryId = idOf("glossary_id")
    const spokenTermsId = idOf("spoken_terms_id")
    if (
      params.has("glossary_id") &&
      (!isUuid(glossaryId) || Glossaries.get(store, [accountId, glossaryId]) === undefined)
    )
      return invalid("glossary_id")
    if (
      params.has("spoken_terms_id") &&
      (!isUuid(spokenTermsId) || SpokenTermsTable.get(store, [accountId, spokenTermsId]) === undefined)
    )
      return invalid("spoken_terms_id")
    return {
      accountId,
      keyId,
      contentType,
      format,
      sourceLanguage: source === undefined ? null : source.code,
      fixed: mode === "fixed",
      targets,
      mediaTargets: targets.filter((target) =>
        media.some((spelled) => spelled.toLowerCase() === target.toLowerCase())
      ),
      mediaType,
      voice,
      formality: formalities[formality],
      tag,
      ...(glossaryId === "" ? {} : { glossaryId }),
      ...(spokenTermsId === "" ? {} : { spokenTermsId })
    }
  }

  private readonly renew: Guarded = (request, using) => {
    const query = readForm(request.query)
    if ("_tag" in query) return problem(query)
    const presented = new Params(query.bag).string("token")
    if (presented === undefined || presented === "") return problem({ _tag: "Missing", name: "token" })
    const hash = this.deps.hashToken(presented)
    const row = VoiceTokens.get(this.deps.store, [hash])
    if (row === undefined || row.accountId !== using.account.accountId) return problem({ _tag: "Forbidden" })
    const claim = this.claims.get(row.sessionId)
    if (claim === undefined) return this.renewed(request, row.sessionId, hash)
    // Without a recognizer the token stays good for another try.
    return flatMapLater<boolean, Response>(this.reclaimed(claim), (isReclaimed) =>
      isReclaimed ? this.renewed(request, row.sessionId, hash) : down("no recognizer is free")
    )
  }

  private renewed(request: Request, sessionId: string, presented: string): Answer {
    const token = this.deps.newToken()
    return askLater<Response>((done) =>
      this.deps.actors
        .ref(VoiceSession, sessionId)
        .askNow("Renew", { presented, token: this.deps.hashToken(token) }, (answer) => {
          if ("reply" in answer) {
            this.connections.get(sessionId)?.replaced()
            return done(() => this.opened(request, sessionId, token))
          }
          if ("refuse" in answer && answer.refuse._tag === "TokenMisused")
            this.connections.get(sessionId)?.misused()
          done(() => ("refuse" in answer ? problem({ _tag: "Forbidden" }) : down(answer)))
        })
    )
  }

  /** Takes the recognizer of a returning session again, before those that are new. Who waits for one leaves
   *  the queue when the client goes. */
  private reclaimed(claim: RecognizerClaim): Later<boolean> {
    const { places } = this.deps.engines.recognizer
    const extended = (lease: RecognizerLease): boolean => {
      lease.renew(connectWithinMs)
      return true
    }
    const reserved = places.reserve(claim)
    if (reserved !== undefined) return extended(reserved)
    return places.lease({ ...claim, urgent: true }).pipe(
      Effect.timeoutOption(reclaimMs),
      Effect.map((lease) => Option.isSome(lease) && extended(lease.value)),
      Effect.catch(() => Effect.succeed(false))
    )
  }

  private upgrade(request: Request): { readonly accept: SocketData } | Response {
    const query = readForm(request.query)
    const presented = "_tag" in query ? undefined : new Params(query.bag).string("token")
    if (presented === undefined || presented === "") return problem({ _tag: "Forbidden" })
    const token = this.deps.hashToken(presented)
    const row = VoiceTokens.get(this.deps.store, [token])
    if (row === undefined) return problem({ _tag: "Forbidden" })
    if (row.state !== "fresh") {
      // A token that was used twice or is outdated ends the session, including its live connection.
      this.deps.actors.ref(VoiceSession, row.sessionId).tell("End", {})
      this.connections.get(row.sessionId)?.misused()
      return problem({ _tag: "Forbidden" })
    }
    // The transport's ids are slices of a large block, which a session must not keep in memory.
    const traceId = Buffer.from(request.traceId).toString()
    return { accept: { sessionId: row.sessionId, traceId, token, connection: undefined } }
  }
}
