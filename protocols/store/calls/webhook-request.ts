/** The signed POST of a webhook. It follows no redirect, and connects only to what is public unless private
 *  targets are allowed.
 *  Source: docs/spec/store.md, sections 9.1, 9.2. */
import { createHmac } from "node:crypto"
import { request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"
import { isIP } from "node:net"
import { Effect } from "effect"
import { isPublicAddress, PrivateTarget, publicLookup } from "../access/public-addresses.ts"
import type { Engine } from "../engine/engine.ts"
import type { Row } from "../engine/resource.ts"

const answerLengthMax = 65_536

export interface SenderOptions {
  readonly headerPrefix: string
  readonly privateTargets: boolean
  readonly lookup?: Parameters<typeof publicLookup>[0] | undefined
}

export interface WebhookRequest {
  readonly url: string
  /** The subscription, whose secret signs the request. */
  readonly subscription: Row
  readonly event: string
  readonly delivery: string
  readonly body: string
  readonly timeoutMs: number
}

export interface WebhookAnswer {
  readonly status: number
  readonly text: string
}

export class WebhookSender {
  private readonly engine: Engine
  private readonly options: SenderOptions

  constructor(engine: Engine, options: SenderOptions) {
    this.engine = engine
    this.options = options
  }

  /** Fails with what kept the target from being reached; who is interrupted ends the request. */
  send(request: WebhookRequest): Effect.Effect<WebhookAnswer, unknown> {
    const { privateTargets, lookup } = this.options
    const { url, body } = request
    const headers = this.headers(request)
    const host = new URL(url).hostname.replace(/^\[|\]$/g, "")
    if (!privateTargets && isIP(host) !== 0 && !isPublicAddress(host)) return Effect.fail(new PrivateTarget())
    return Effect.callback((resume, signal) => {
      const failed = (cause: unknown): void => resume(Effect.fail(cause))
      const send = url.startsWith("https:") ? httpsRequest : httpRequest
      const call = send(
        url,
        {
          method: "POST",
          signal: AbortSignal.any([signal, AbortSignal.timeout(request.timeoutMs)]),
          ...(privateTargets ? {} : { lookup: publicLookup(lookup) }),
          headers
        },
        (answer) => {
          let text = ""
          answer.setEncoding("utf8")
          answer.on("data", (part: string) => {
            text += part
            if (text.length > answerLengthMax) call.destroy(new Error("too much"))
          })
          answer.on("end", () => resume(Effect.succeed({ status: answer.statusCode ?? 0, text })))
          answer.on("error", failed)
        }
      )
      call.on("error", failed)
      call.end(body)
    })
  }

  private headers({ subscription, event, delivery, body }: WebhookRequest): Record<string, string | number> {
    const { headerPrefix } = this.options
    const timestamp = String(Math.floor(this.engine.clock() / 1_000))
    const secret = this.engine.cipher.open(
      subscription.values["secret"] as Uint8Array,
      `webhooks/${subscription.id}/secret`
    )
    const signature = createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex")
    return {
      "Content-Type": "application/json; charset=utf-8",
      "Content-Length": Buffer.byteLength(body),
      [`${headerPrefix}-Event`]: event,
      [`${headerPrefix}-Delivery`]: delivery,
      [`${headerPrefix}-Timestamp`]: timestamp,
      [`${headerPrefix}-Signature`]: `sha256=${signature}`
    }
  }
}
