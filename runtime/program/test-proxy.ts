/** The plain HTTP forward proxy of test mode: absolute-form requests to this node, with a Forwarded header
 *  added. Loopback targets only.
 *  Source: translation section 18.1.2. */
import { createServer, request, type Server } from "node:http"

const loopback = /^(?:localhost|127(?:\.\d+){3}|\[::1\])$/i

export const startTestProxy = (
  host: string,
  port: number
): Promise<{ readonly port: number; close(): Promise<void> }> =>
  new Promise((resolve, reject) => {
    const server: Server = createServer((asked, answer) => {
      let url: URL
      try {
        url = new URL(asked.url ?? "")
      } catch {
        answer.writeHead(400).end()
        return
      }
      if (url.protocol !== "http:" || !loopback.test(url.hostname)) {
        answer.writeHead(403).end()
        return
      }
      const { "proxy-connection": _, ...headers } = asked.headers
      const onward = request(
        {
          host: url.hostname,
          port: url.port === "" ? 80 : url.port,
          method: asked.method,
          path: `${url.pathname}${url.search}`,
          headers: { ...headers, forwarded: `for=${asked.socket.remoteAddress ?? "unknown"}` }
        },
        (got) => {
          answer.writeHead(got.statusCode ?? 502, got.headers)
          got.pipe(answer)
        }
      )
      onward.on("error", () => {
        if (answer.headersSent) answer.destroy()
        else answer.writeHead(502).end()
      })
      answer.on("close", () => onward.destroy())
      asked.pipe(onward)
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
