/** Handlers that return Effects, over both adapters: they run once, and stop with their client or the drain. */
import { connect, type Socket as Wire } from "node:net"
import { Deferred, Effect } from "effect"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { BodyFault, json, type Answer, type Service, type Sink } from "../../../runtime/http.ts"
import { bind as bindNode } from "../../../runtime/transport/node.ts"
import { type Bind, listenBy, type Server } from "../../../runtime/transport/server.ts"
import { bind as bindUws } from "../../../runtime/transport/uws.ts"

const done = json(200, { done: true })

for (const [name, bind] of [
  ["uws", bindUws],
  ["node", bindNode]
] as ReadonlyArray<readonly [string, Bind]>)
  describe(`handlers that return Effects, over ${name}`, () => {
    let server: Server
    let runs = 0
    let begun = Deferred.makeUnsafe<void>()
    let released = Deferred.makeUnsafe<void>()

    const holding = <A>(work: Effect.Effect<A>): Effect.Effect<A> =>
      Effect.suspend(() => {
        runs++
        Deferred.doneUnsafe(begun, Effect.void)
        return work
      }).pipe(Effect.ensuring(Effect.sync(() => Deferred.doneUnsafe(released, Effect.void))))

    const first = (sink: Sink): Effect.Effect<void> => Effect.sync(() => void sink.send("first"))
    const streamed = (body: (sink: Sink) => Effect.Effect<void>): Answer => ({
      status: 200,
      body: (sink) => holding(body(sink))
    })

    const answers: Readonly<Record<string, () => Answer>> = {
      "/now": () => holding(Effect.succeed(done)),
      "/later": () => holding(Effect.as(Effect.yieldNow, done)),
      "/never": () => holding(Effect.never),
      "/defect": () => holding(Effect.andThen(Effect.yieldNow, Effect.die(new Error("broken")))),
      "/too-large": () => holding(Effect.die(new BodyFault("too-large"))),
      "/body/now": () => streamed((sink) => Effect.sync(() => void sink.write("whole"))),
      "/body/later": () =>
        streamed((sink) =>
          Effect.andThen(
            Effect.yieldNow,
            Effect.sync(() => void sink.write("whole"))
          )
        ),
      "/body/never": () => streamed((sink) => Effect.andThen(first(sink), Effect.never)),
      "/body/defect": () => streamed((sink) => Effect.andThen(first(sink), Effect.die(new Error("broken"))))
    }
    const service: Service = {
      name: "effects",
      prefixes: ["/"],
      routes: Object.entries(answers).map(([path, handle]) => ({ method: "GET", path, handle })),
      refused: (status) => json(status, { refused: status })
    }

    const open = async (): Promise<void> => {
      server = await listenBy(bind)([service], { host: "127.0.0.1", port: 0 })
    }
    const get = (path: string) => fetch(`http://127.0.0.1:${server.port}${path}`)
    const asked = (path: string): Wire => {
      const wire = connect(server.port, "127.0.0.1")
      wire.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
      return wire
    }
    const wait = (signal: Deferred.Deferred<void>) => Effect.runPromise(Deferred.await(signal))

    beforeAll(open)
    afterAll(() => server.drain(0))
    beforeEach(() => {
      runs = 0
      begun = Deferred.makeUnsafe()
      released = Deferred.makeUnsafe()
    })

    it("answers at once, or later; each runs once", async () => {
      for (const path of ["/now", "/later"]) {
        const answer = await get(path)
        expect([answer.status, await answer.json()]).toEqual([200, { done: true }])
        expect(answer.headers.get("x-trace-id")).toMatch(/^[0-9a-f]{32}$/)
      }
      expect(runs).toBe(2)
    })

    it("words a defect as the service's 500, and a fault of the body as 413", async () => {
      expect(await (await get("/defect")).json()).toEqual({ refused: 500 })
      expect(await (await get("/too-large")).json()).toEqual({ refused: 413 })
    })

    it("interrupts the Effect when its client goes", async () => {
      const wire = asked("/never")
      await wait(begun)
      wire.destroy()
      await wait(released)
      expect((await get("/now")).status).toBe(200)
    })

    it("runs the Effect that writes a body once, to its end", async () => {
      for (const path of ["/body/now", "/body/later"]) expect(await (await get(path)).text()).toBe("whole")
      expect(runs).toBe(2)
    })

    it("interrupts the Effect that writes a body when its client goes", async () => {
      const wire = asked("/body/never")
      await wait(begun)
      wire.destroy()
      await wait(released)
    })

    it("cuts the connection of a body whose Effect fails, and of one that outlasts the drain", async () => {
      await expect(get("/body/defect").then((answer) => answer.text())).rejects.toThrow()
      await wait(released)
      begun = Deferred.makeUnsafe()
      released = Deferred.makeUnsafe()
      const answer = await get("/body/never")
      await wait(begun)
      const text = answer.text()
      text.catch(() => {})
      await server.drain(0)
      await wait(released)
      await expect(text).rejects.toThrow()
      await open()
    })

    it("interrupts what outlasts the drain: the client hears 503", async () => {
      const answer = get("/never")
      await wait(begun)
      await server.drain(0)
      await wait(released)
      expect(await (await answer).json()).toEqual({ refused: 503 })
      await open()
    })
  })
