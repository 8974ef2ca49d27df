/** A gateway with node:http on both sides, one stream piped into the other. */
import { Agent, createServer, request } from "node:http"
import type net from "node:net"
import { announce, json } from "./shared.ts"

export const nodePipe = (upstreamPort: string): void => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1_024 })
  createServer({ noDelay: true }, (incoming, reply) => {
    const { "content-length": length } = incoming.headers
    const call = request(
      {
        host: "127.0.0.1",
        port: Number(upstreamPort),
        path: incoming.url,
        method: "POST",
        agent,
        headers: { "content-type": json, ...(length === undefined ? {} : { "content-length": length }) }
      },
      (answer) => {
        reply.writeHead(answer.statusCode!, answer.headers)
        reply.flushHeaders()
        answer.pipe(reply)
      }
    )
    call.on("error", () => reply.destroy())
    reply.on("close", () => {
      if (!reply.writableFinished) call.destroy()
    })
    incoming.pipe(call)
  }).listen(0, "127.0.0.1", function (this: net.Server) {
    announce((this.address() as net.AddressInfo).port)
  })
}
