/** Serves translation requests by hand: it parses JSON and answers the text itself, without key, checks or
 *  limits. */
import { createServer } from "node:http"
import { createRequire } from "node:module"
import type { AddressInfo } from "node:net"
import { announce } from "./announce.ts"
import { loadLibrary } from "../../../runtime/transport/uws-library.ts"

const require = createRequire(import.meta.url)
const trace = "0123456789abcdef0123456789abcdef"

interface TranslationRequest {
  readonly text: ReadonlyArray<string>
}

const answer = ({ text: texts }: TranslationRequest): string =>
  JSON.stringify({ translations: texts.map((text) => ({ detected_source_language: "EN", text })) })

export const httpUws = (): void => {
  const { App, us_socket_local_port } = loadLibrary()
  App()
    .post("/v2/translate", (res) => {
      let received: Buffer | undefined
      res.onAborted(() => {})
      res.onData((chunk, last) => {
        const part = Buffer.from(chunk)
        if (!last) {
          received = received === undefined ? Buffer.from(part) : Buffer.concat([received, part])
          return
        }
        const text = answer(
          JSON.parse((received === undefined ? part : Buffer.concat([received, part])).toString())
        )
        res.cork(() => {
          res.writeHeader("Content-Type", "application/json")
          res.writeHeader("X-Trace-ID", trace)
          res.end(text)
        })
      })
    })
    .listen("127.0.0.1", 0, (token) => announce(us_socket_local_port(token as never)))
}

export const httpNode = (): void => {
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      const text = answer(JSON.parse(Buffer.concat(parts).toString()))
      response.writeHead(200, {
        "content-type": "application/json",
        "x-trace-id": trace,
        "content-length": Buffer.byteLength(text)
      })
      response.end(text)
    })
  }).listen(0, "127.0.0.1", () => announce((server.address() as AddressInfo).port))
}

export const httpFastify = (): void => {
  const app = require("fastify")({ logger: false })
  const texts = { type: "array", items: { type: "string" } }
  app.post(
    "/v2/translate",
    {
      schema: {
        body: {
          type: "object",
          required: ["text", "target_lang"],
          properties: { text: texts, target_lang: { type: "string" } }
        },
        response: {
          200: {
            type: "object",
            properties: {
              translations: {
                type: "array",
                items: {
                  type: "object",
                  properties: { detected_source_language: { type: "string" }, text: { type: "string" } }
                }
              }
            }
          }
        }
      }
    },
    (request: any, response: any) => {
      response.header("x-trace-id", trace)
      return {
        translations: request.body.text.map((text: string) => ({ detected_source_language: "EN", text }))
      }
    }
  )
  app.listen({ port: 0, host: "127.0.0.1" }).then(() => announce(app.server.address().port))
}
