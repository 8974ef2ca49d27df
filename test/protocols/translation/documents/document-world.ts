/** The service with documents behind a real socket: memory store, scripted engine, threads as in the program,
 *  a clock that can be moved. */
import { Context } from "effect"
import * as deepl from "deepl-node"
import { RateWindow } from "../../../../actors/rate-window.ts"
import { KeyRing } from "../../../../protocols/translation/account/keys.ts"
import {
  createAccount,
  createKey,
  type Account,
  type NewAccount,
  type NewKey
} from "../../../../protocols/translation/account/records.ts"
import { createResources } from "../../../../protocols/translation/resources.ts"
import { translation } from "../../../../protocols/translation/routes.ts"
import type { DocumentDeps, DocumentRoutes } from "../../../../protocols/translation/documents/routes.ts"
import { Usage } from "../../../../protocols/translation/account/usage.ts"
import { ActorSystem } from "../../../../runtime/registry.ts"
import { documentCustomizations, documentService } from "../../../../runtime/program/services/documents.ts"
import { listenWith } from "../../../../runtime/transport/listen.ts"
import type { Server } from "../../../../runtime/transport/server.ts"
import { openMemory } from "../../../../storage/memory.ts"
import { sealer } from "../../../../storage/seal.ts"
import type { Store } from "../../../../storage/store.ts"
import { scripted, type Script } from "../harness.ts"

export interface Handle {
  readonly document_id: string
  readonly document_key: string
}

export interface Status {
  readonly status: string
  readonly seconds_remaining?: number
  readonly billed_characters?: number
  readonly error_message?: string
  readonly message?: string
}

export class DocumentWorld {
  readonly store: Store
  readonly usage: Usage
  readonly asked
  service!: DocumentRoutes
  system!: ActorSystem
  secret = ""
  account!: Account
  url = ""
  skewMs = 0
  private server!: Server
  private ticking: NodeJS.Timeout | undefined
  private readonly ring: KeyRing
  private readonly engines
  private readonly clock = (): number => Date.now() + this.skewMs

  private readonly hash = (secret: string): string =>
    sealer(new Uint8Array(32)).hash(secret, "translation-key")

  private constructor(script: Script, store: Store) {
    const { engines, asked } = scripted(script)
    this.engines = engines
    this.asked = asked
    this.store = store
    this.ring = new KeyRing(store, this.hash)
    this.usage = new Usage(store, this.clock, 0)
  }

  static async open(
    script: Script = {},
    more: {
      readonly adapter?: "uws" | "node"
      readonly store?: Store
      readonly account?: Partial<NewAccount>
      readonly deps?: Partial<DocumentDeps>
    } = {}
  ): Promise<DocumentWorld> {
    const world = new DocumentWorld(script, more.store ?? openMemory())
    world.account = await createAccount(world.store, { tier: "paid", nowMs: world.clock(), ...more.account })
    world.secret = await world.key()
    await world.start(more)
    return world
  }

  async key(options: Partial<NewKey> = {}): Promise<string> {
    return (await createKey(this.store, this.hash, this.account, { nowMs: this.clock(), ...options })).secret
  }

  async start({
    adapter = "uws",
    deps = {}
  }: { readonly adapter?: "uws" | "node"; readonly deps?: Partial<DocumentDeps> } = {}): Promise<void> {
    const system = (this.system = new ActorSystem({ store: this.store, nowMs: this.clock }))
    system.host(RateWindow, Context.empty())
    const resources = createResources({
      store: this.store,
      actors: system,
      engines: this.engines,
      usage: this.usage,
      ring: this.ring,
      clock: this.clock,
      hashKey: this.hash
    })
    this.service = await documentService({
      store: this.store,
      actors: system,
      engines: this.engines,
      usage: this.usage,
      ring: this.ring,
      clock: this.clock,
      atOnce: 2,
      ...documentCustomizations(resources),
      ...deps
    })
    const service = translation({
      store: this.store,
      actors: system,
      engines: this.engines,
      hashKey: this.hash,
      clock: this.clock,
      ring: this.ring,
      usage: this.usage,
      limits: { calls: 1_000_000, windowMs: 2_000, inFlight: 64 },
      documents: this.service,
      resources: resources
    })
    this.server = await listenWith(adapter, () => {}, [service], { host: "127.0.0.1", port: 0 })
    this.url = `http://127.0.0.1:${this.server.port}`
    this.ticking = setInterval(() => system.tick(), 10)
    system.resume()
  }

  async close(): Promise<void> {
    clearInterval(this.ticking)
    await this.server.drain(500)
  }

  client(options: deepl.TranslatorOptions = {}): deepl.Translator {
    return new deepl.Translator(this.secret, {
      serverUrl: this.url,
      maxRetries: 0,
      minTimeout: 10_000,
      ...options
    })
  }

  post(
    path: string,
    body: FormData | Record<string, string> | undefined,
    headers: Record<string, string> = {}
  ): Promise<Response> {
    const json = body !== undefined && !(body instanceof FormData)
    return fetch(this.url + path, {
      method: "POST",
      headers: {
        authorization: `DeepL-Auth-Key ${this.secret}`,
        ...(json ? { "content-type": "application/json" } : {}),
        ...headers
      },
      ...(body === undefined ? {} : { body: json ? JSON.stringify(body) : (body as any) })
    })
  }

  async upload(
    name: string,
    content: string | Uint8Array,
    fields: Record<string, string> = {}
  ): Promise<Response> {
    const form = new FormData()
    for (const [field, value] of Object.entries({ target_lang: "DE", source_lang: "EN", ...fields }))
      if (value !== "") form.append(field, value)
    form.append("file", new Blob([content as any]), name)
    return this.post("/v2/document", form)
  }

  async status(handle: Handle): Promise<Status> {
    return (await (
      await this.post(`/v2/document/${handle.document_id}`, { document_key: handle.document_key })
    ).json()) as Status
  }

  async ended(handle: Handle): Promise<Status> {
    for (let i = 0; i < 3_000; i++) {
      const status = await this.status(handle)
      if (status.status === "done" || status.status === "error") return status
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    throw new Error("the document did not end")
  }

  download(handle: Handle): Promise<Response> {
    return this.post(`/v2/document/${handle.document_id}/result`, { document_key: handle.document_key })
  }

  /** From upload to the bytes that come back, or how it was refused: at upload (U) or in its state (S). */
  async translate(
    name: string,
    content: string | Uint8Array,
    fields: Record<string, string> = {}
  ): Promise<
    | { readonly at: "U" | "S"; readonly status: number; readonly message: string }
    | { readonly at: "OK"; readonly bytes: Buffer; readonly billed: number; readonly headers: Headers }
  > {
    const answer = await this.upload(name, content, fields)
    if (answer.status !== 200)
      return {
        at: "U",
        status: answer.status,
        message: ((await answer.json()) as { message: string }).message
      }
    const handle = (await answer.json()) as Handle
    const { status, error_message: message = "", billed_characters: billed = -1 } = await this.ended(handle)
    if (status === "error") return { at: "S", status: 200, message }
    const result = await this.download(handle)
    return { at: "OK", bytes: Buffer.from(await result.arrayBuffer()), billed, headers: result.headers }
  }
}
