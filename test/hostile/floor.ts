/** The hand-written floor of the hostile hour: uWebSockets.js and LMDB in one process, without keys, limits or
 *  checks, but it answers bad input. Its parts are the floors of the benches. */
import { join } from "node:path"
import { open } from "lmdb"
import type uWS from "uWebSockets.js"
import { Relay, UpstreamSockets } from "../../bench/candidates/chat/raw-pipe.ts"
import { FloorTokens, isAuthenticated } from "../../bench/candidates/oauth/floor.ts"
import { clientId, clientSecret, temporaryFolder } from "../../bench/candidates/oauth/shared.ts"
import { loadLibrary } from "../../runtime/transport/uws-library.ts"

export interface FloorSettings {
  readonly upstreamPort: number
  readonly families: number
  readonly products: number
}

export interface FloorSaid {
  readonly port: number
  readonly client: string
  readonly refreshTokens: ReadonlyArray<string>
}

type Response = uWS.HttpResponse & { isOver?: boolean }

const bodyBytesMax = 2 ** 21
const json = "application/json"

const send = (res: Response, status: string, body: string): void => {
  if (res.isOver === true) return
  res.isOver = true
  res.cork(() => {
    res.writeStatus(status).writeHeader("Content-Type", json).end(body)
  })
}

type Answering = (
  body: Buffer
) => readonly [status: string, body: string] | Promise<readonly [string, string]>

/** Collects the body; what the work throws is a 400. */
const collect = (res: Response, work: (body: Buffer) => void): void => {
  const parts: Array<Buffer> = []
  let bytes = 0
  res.onAborted(() => {
    res.isOver = true
  })
  res.onData((part, isLast) => {
    bytes += part.byteLength
    if (bytes > bodyBytesMax) return send(res, "413 Payload Too Large", "{}")
    parts.push(Buffer.from(Buffer.from(part)))
    if (isLast && res.isOver !== true)
      try {
        work(Buffer.concat(parts))
      } catch {
        send(res, "400 Bad Request", "{}")
      }
  })
}

const answering =
  (answer: Answering) =>
  (res: Response): void =>
    collect(res, (body) => {
      const answered = answer(body)
      if (answered instanceof Promise)
        void answered.then(
          ([status, text]) => send(res, status, text),
          () => send(res, "400 Bad Request", "{}")
        )
      else send(res, answered[0], answered[1])
    })

const ok = "200 OK"

export const runFloor = async ({ upstreamPort, families, products }: FloorSettings): Promise<FloorSaid> => {
  const { App, us_socket_local_port } = loadLibrary()
  const tokens = new FloorTokens()
  const upstreams = new UpstreamSockets(upstreamPort)
  const db = open<Buffer, number>({ path: join(temporaryFolder(), "store.lmdb"), encoding: "binary" })
  for (let id = 1; id <= products; id++)
    void db.put(id, Buffer.from(JSON.stringify({ id, item_name: `Product ${id}` })))
  await db.flushed
  let last = products
  const list = `{"total_count":${products},"products":[${[1, 2, 3, 4, 5].map((id) => db.getBinary(id)!.toString()).join(",")}]}`
  const stored = async (id: number, change: object): Promise<string> => {
    const text = JSON.stringify({ ...JSON.parse(db.getBinary(id)?.toString() ?? "{}"), id, ...change })
    await db.put(id, Buffer.from(text))
    await db.flushed
    return text
  }
  const notFound = "404 Not Found"
  const guarded =
    (answer: (form: URLSearchParams) => string | undefined | Promise<string | undefined>) =>
    (res: Response, req: uWS.HttpRequest): void => {
      const authorization = req.getHeader("authorization")
      answering(async (body) => {
        if (!isAuthenticated(authorization)) return ["401 Unauthorized", "{}"]
        const text = await answer(new URLSearchParams(body.toString()))
        return text === undefined ? ["400 Bad Request", "{}"] : [ok, text]
      })(res)
    }
  let listens = (_port: number): void => {}
  const listening = new Promise<number>((resolve) => {
    listens = resolve
  })
  App()
    .post(
      "/v2/translate",
      answering((body) => {
        const { text } = JSON.parse(body.toString()) as { readonly text: ReadonlyArray<string> }
        const translations = text.map((one) => ({ detected_source_language: "BE", text: one.toUpperCase() }))
        return [ok, JSON.stringify({ translations })]
      })
    )
    .post(
      "/oauth/token",
      guarded((form) =>
        form.get("grant_type") === "refresh_token"
          ? tokens.rotate(form.get("refresh_token")!)
          : tokens.clientCredentials(form.get("scope")!)
      )
    )
    .post(
      "/oauth/introspect",
      guarded((form) => tokens.introspect(form.get("token")!))
    )
    .post("/v1/chat/completions", (res: Response) => {
      let socket: ReturnType<UpstreamSockets["open"]> | undefined
      const relay = new Relay(res, () => {
        res.isOver = true
        upstreams.release(socket!)
      })
      collect(res, (body) => {
        JSON.parse(body.toString())
        res.onAborted(() => {
          relay.ended = res.isOver = true
          socket?.destroy()
        })
        socket = upstreams.open()
        socket.receive = (data) => relay.receive(data)
        socket.write(
          `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: ${json}\r\ncontent-length: ${body.length}\r\n\r\n`
        )
        socket.write(body)
      })
    })
    .get("/api/v1/products.json", (res) => send(res, ok, list))
    .get("/api/v1/products/:id", (res, req) => {
      const row = db.getBinary(Number(req.getParameter(0)))
      send(res, row === undefined ? notFound : ok, row?.toString() ?? "{}")
    })
    .post(
      "/api/v1/products",
      answering(async (body) => ["201 Created", await stored(++last, JSON.parse(body.toString()))])
    )
    .put("/api/v1/products/:id", (res, req) => {
      const id = Number(req.getParameter(0))
      answering(async (body) => [ok, await stored(id, JSON.parse(body.toString()))])(res)
    })
    .del("/api/v1/products/:id", (res, req) => {
      const id = Number(req.getParameter(0))
      answering(async () => {
        await db.remove(id)
        await db.flushed
        return [ok, "{}"]
      })(res)
    })
    .any(
      "/*",
      answering(() => [notFound, "{}"])
    )
    .listen("127.0.0.1", 0, (token) => {
      listens(us_socket_local_port(token as never))
    })
  return {
    port: await listening,
    client: `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`,
    refreshTokens: await tokens.refreshTokens(families)
  }
}
