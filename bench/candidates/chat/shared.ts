/** The gateway candidates share how they read a request's body and how they print where they listen. */
import type uWS from "uWebSockets.js"

export const eventStream = "text/event-stream"
export const json = "application/json"

export const announce = (port: number): void => console.log(port)

export const collectBody = (res: uWS.HttpResponse, onBody: (body: Buffer) => void): void => {
  let body: Buffer = Buffer.alloc(0)
  res.onData((part, last) => {
    body = Buffer.concat([body, Buffer.from(part)])
    if (last) onBody(body)
  })
}
