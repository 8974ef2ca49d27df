/** A gateway that copies bytes from undici into uWebSockets.js, unread. */
import { Pool } from "undici"
import { announce, collectBody, eventStream, json } from "./shared.ts"
import { loadLibrary } from "../../../runtime/transport/uws-library.ts"

export const undiciPipe = (upstreamPort: string): void => {
  const { App, us_socket_local_port } = loadLibrary()
  const pool = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 1_024, pipelining: 1 })
  App()
    .post("/*", (res, req) => {
      const path = req.getUrl()
      let ended = false
      let abort: (() => void) | undefined
      res.onAborted(() => {
        ended = true
        abort?.()
      })
      collectBody(res, (body) => {
        let stream = false
        const parts: Array<Buffer> = []
        pool.dispatch(
          { path, method: "POST", headers: { "content-type": json }, body },
          {
            onRequestStart: (control) => {
              abort = () => control.abort(new Error("the client left"))
            },
            onResponseStart: (_, __, headers) => {
              stream = String(headers["content-type"]).startsWith(eventStream)
              if (stream && !ended)
                res.cork(() => {
                  res.writeHeader("content-type", eventStream).write("")
                })
            },
            onResponseData: (_, data) => {
              if (ended) return
              if (stream)
                res.cork(() => {
                  res.write(data)
                })
              else parts.push(data)
            },
            onResponseEnd: () => {
              if (ended) return
              ended = true
              res.cork(() => {
                if (stream) res.end()
                else res.writeHeader("content-type", json).end(Buffer.concat(parts))
              })
            },
            onResponseError: () => {
              if (!ended) {
                ended = true
                res.close()
              }
            }
          }
        )
      })
    })
    .listen("127.0.0.1", 0, (token) => announce(us_socket_local_port(token as never)))
}
