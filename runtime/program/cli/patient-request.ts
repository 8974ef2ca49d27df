/** An HTTP request without a deadline, on a connection of its own: fetch gives up on an answer after five minutes, and
 *  an idle connection may be closed by the server in the very moment it is used again, while a POST must not be
 *  sent twice. */
import { request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"

export interface PatientRequest {
  readonly method: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

export interface PatientAnswer {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly text: string
}

export const requestPatiently = ({ method, url, headers, body }: PatientRequest): Promise<PatientAnswer> =>
  new Promise((resolve, reject) => {
    const length = body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(body)) }
    const call = (url.startsWith("https:") ? httpsRequest : httpRequest)(
      url,
      { method, agent: false, headers: { ...headers, ...length } },
      (answer) => {
        let text = ""
        answer
          .setEncoding("utf8")
          .on("data", (part: string) => {
            text += part
          })
          .on("error", reject)
          .on("end", () =>
            resolve({ status: answer.statusCode ?? 0, retryAfter: answer.headers["retry-after"], text })
          )
      }
    )
    call.on("error", reject)
    call.end(body)
  })
