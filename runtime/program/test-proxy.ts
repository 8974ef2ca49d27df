/** The plain HTTP forward proxy of test mode: it passes absolute-form requests on to this node and adds a
 *  Forwarded header. Guarantee: it reaches loopback targets only. Source: docs/spec/translation.md, section
 *  18.1. */
import { createServer, request, type Server } from "node:http"
import { isLoopbackHost } from "../../protocols/shared/addresses.ts"

export const startTestProxy = (
  host: string,
  port: number
): Promise<{ readonly port: number; close(): Promise<void> }> =>
  new Promise((resolve, reject) => {
    const server: Server = createServer((incoming, answer) => {
      let url: URL
      try {
        url = new URL(incoming.url ?? "")
      } catch {
        answer.writeHead(400).end()
        return
      }
      if (url.protocol !== "http:" || !isLoopbackHost(url.hostname)) {
        answer.writeHead(403).end()
        return
      }
      const { "proxy-connection": _, ...headers } = incoming.headers
      const forwarded = request(
        {
          host: url.hostname,
          port: url.port === "" ? 80 : url.port,
          method: incoming.method,
          path: `${url.pathname}${url.search}`,
          headers: { ...headers, forwarded: `for=${incoming.socket.remoteAddress ?? "unknown"}` }
        },
        (response) => {
          answer.writeHead(response.statusCode ?? 502, response.headers)
          response.pipe(answer)
        }
      )
      forwarded.on("error", () => {
        if (answer.headersSent) answer.destroy()
        else answer.writeHead(502).end()
      })
      answer.on("close", () => forwarded.destroy())
      incoming.pipe(forwarded)
    })
    server.on("error", reject)
    server.listen(port, host, () =>
      resolve({
        port: (server.address() as { port: number }).port,
        close: () =>
          new Promise((closed) => {
            server.closeAllConnections()
            server.close(() => closed())
          })
      })
    )
  })
