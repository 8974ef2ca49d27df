/** What stands around the program of a sample: a translator, a transcriber, a model server, an OAuth provider, an identity provider, a client's
 *  metadata document and the targets of webhooks, all on one port, all made up. */
import { createHash, generateKeyPairSync, sign, type KeyObject } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"

/** The port by which samples know it; the preload leads to where it listens. */
export const outsidePort = 49_151
export const outsideUrl = `http://127.0.0.1:${outsidePort}`

export interface Heard {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage["headers"]
  readonly text: string
}
const jsonOf = (text: string): any => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const jws = (header: object, claims: object, key: KeyObject): string => {
  const signed = [header, claims]
    .map((part) => Buffer.from(JSON.stringify(part)).toString("base64url"))
    .join(".")
  return `${signed}.${sign("sha256", Buffer.from(signed), { key, dsaEncoding: "ieee-p1363" }).toString("base64url")}`
}
/** The likeness of a translation: every word of the source is in it, and the language. */
export const translated = (text: string, target: string): string => `[${target.toLowerCase()}] ${text}`

export class Outside {
  readonly heard: Array<Heard> = []
  /** Paths whose requests get no answer. */
  readonly silent = new Set<string>()
  /** Paths that answer 500. */
  readonly broken = new Set<string>()
  /** How long a transcription takes. */
  transcribingMs = 0
  /** Texts whose translation never comes. */
  silentText: string | undefined = undefined
  /** Model names whose answer stops after a word. */
  readonly halting = new Set<string>(["halting"])
  nowMs: () => number = Date.now
  /** Of the user who signs in at the OpenID provider. */
  nonce = ""
  private readonly keys = generateKeyPairSync("ec", { namedCurve: "P-256" })
  private server!: Server
  private vended = 0

  static async open(): Promise<Outside> {
    const outside = new Outside()
    outside.server = createServer((request, reply) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        const heard = {
          method: request.method!,
          path: request.url!,
          headers: request.headers,
          text: Buffer.concat(parts).toString("latin1")
        }
        outside.heard.push(heard)
        outside.answer(heard, reply)
      })
    })
    await new Promise<void>((resolve) => {
      outside.server.listen(0, "127.0.0.1", resolve)
    })
    return outside
  }
  get port(): number {
    return (this.server.address() as AddressInfo).port
  }
  async close(): Promise<void> {
    this.server.closeAllConnections()
    await new Promise((resolve) => {
      this.server.close(resolve)
    })
  }

  /** An assertion of the identity provider, for the jwt-bearer grant. */
  assertion(claims: Readonly<Record<string, unknown>>): string {
    const seconds = Math.floor(this.nowMs() / 1_000)
    return jws(
      { typ: "oauth-id-jag+jwt", alg: "ES256", kid: "k1" },
      { iss: `${outsideUrl}/idp`, iat: seconds, exp: seconds + 300, ...claims },
      this.keys.privateKey
    )
  }

  private answer({ path: whole, text }: Heard, reply: ServerResponse): void {
    const [path = ""] = whole.split("?")
    if (this.silent.has(path)) return
    const json = (value: unknown, status = 200): void => {
      reply.writeHead(status, { "content-type": "application/json" })
      reply.end(JSON.stringify(value))
    }
    if (this.broken.has(path)) return json({ error: "broken" }, 500)
    if (path.startsWith("/hooks/")) return json({})
    if (path === "/deepl/v2/languages")
      return json(
        ["EN", "ES", "DE", "FR"].map((language) => ({
          language,
          name: language,
          supports_formality: language === "DE"
        }))
      )
    if (path === "/deepl/v2/translate")
      return this.translate(jsonOf(Buffer.from(text, "latin1").toString()), json)
    if (path === "/openai/audio/transcriptions") {
      const said = { text: `utterance of ${Math.round(text.length / 32_000)} seconds` }
      setTimeout(() => json(said), this.transcribingMs)
      return
    }
    if (path === "/model/models")
      return json({
        object: "list",
        data: ["steady", "halting"].map((id) => ({
          id,
          object: "model",
          created: 1_704_067_200,
          owned_by: "outside"
        }))
      })
    if (path === "/model/responses") return this.respond(jsonOf(text), reply)
    if (path.startsWith("/model/responses/")) return json({ error: { message: "not now" } }, 500)
    if (
      path === "/idp/.well-known/openid-configuration" ||
      path === "/idp/.well-known/oauth-authorization-server"
    )
      return json({
        issuer: `${outsideUrl}/idp`,
        authorization_endpoint: `${outsideUrl}/idp/authorize`,
        token_endpoint: `${outsideUrl}/idp/token`,
        jwks_uri: `${outsideUrl}/idp/jwks`
      })
    if (path === "/idp/jwks")
      return json({
        keys: [{ ...this.keys.publicKey.export({ format: "jwk" }), kid: "k1", alg: "ES256", use: "sig" }]
      })
    if (path === "/idp/token") {
      const seconds = Math.floor(this.nowMs() / 1_000)
      const claims = {
        iss: `${outsideUrl}/idp`,
        aud: "troupe-sample",
        sub: "upstream-subject-1",
        nonce: this.nonce,
        iat: seconds,
        exp: seconds + 600,
        email: "Federated@Example.org",
        name: "Fed Erated"
      }
      return json({ id_token: jws({ alg: "ES256", kid: "k1" }, claims, this.keys.privateKey) })
    }
    if (path === "/provider/token") {
      this.vended++
      return json({
        access_token: `upstream-access-${this.vended}`,
        refresh_token: `upstream-refresh-${this.vended}`,
        token_type: "Bearer",
        expires_in: 3_600,
        scope: "repo:read"
      })
    }
    if (path === "/client/metadata.json")
      return json({
        client_id: `${outsideUrl}/client/metadata.json`,
        client_name: "Client of a document",
        redirect_uris: ["https://app.example.com/cb"],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
        token_endpoint_auth_method: "none",
        scope: "files:read files:write"
      })
    return json({ error: "nothing here" }, 404)
  }
  private translate(
    asked: { readonly text: ReadonlyArray<string>; readonly target_lang: string },
    json: (value: unknown) => void
  ): void {
    if (this.silentText !== undefined && asked.text.some((text) => text.includes(this.silentText!))) return
    json({
      translations: asked.text.map((text) => ({
        detected_source_language: "EN",
        text: translated(text, asked.target_lang)
      }))
    })
  }
  /** The Responses API of a model server that keeps sessions. */
  private respond(
    asked: { readonly model: string; readonly stream?: boolean; readonly input: unknown },
    reply: ServerResponse
  ): void {
    const id = `resp_up_${createHash("sha256").update(JSON.stringify(asked.input)).digest("hex").slice(0, 16)}`
    const said = `heard ${JSON.stringify(asked.input).length} characters`
    const message = {
      id: "msg_up",
      type: "message",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: said, annotations: [] }]
    }
    const response = {
      id,
      object: "response",
      created_at: 1_704_067_200,
      status: "completed",
      model: asked.model,
      output: [message],
      usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 }
    }
    if (asked.stream !== true) {
      if (this.halting.has(asked.model)) return
      reply.writeHead(200, { "content-type": "application/json" })
      reply.end(JSON.stringify(response))
      return
    }
    reply.writeHead(200, { "content-type": "text/event-stream" })
    const send = (type: string, event: object): void => {
      reply.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...event })}\n\n`)
    }
    const item = { output_index: 0, item_id: "msg_up", content_index: 0 }
    send("response.created", { response: { ...response, status: "in_progress", output: [] } })
    send("response.output_item.added", {
      output_index: 0,
      item: { ...message, status: "in_progress", content: [] }
    })
    send("response.content_part.added", { ...item, part: { type: "output_text", text: "", annotations: [] } })
    send("response.output_text.delta", { ...item, delta: "heard " })
    if (this.halting.has(asked.model)) return
    send("response.output_text.delta", { ...item, delta: said.slice(6) })
    send("response.output_text.done", { ...item, text: said })
    send("response.content_part.done", { ...item, part: message.content[0] })
    send("response.output_item.done", { output_index: 0, item: message })
    send("response.completed", { response })
    reply.end()
  }
}
