/** Uploads whose client goes away. */
import { connect } from "node:net"
import { Deferred, Effect } from "effect"
import { expect, it } from "vitest"
import { DocumentWorld } from "./document-world.ts"

it.each(["uws", "node"] as const)(
  "over %s, a client that goes while its document is inspected ends the inspection; nothing is left",
  async (adapter) => {
    const characters = 100_000
    const world = await DocumentWorld.open({}, { adapter, account: { limits: { characters } } })
    const begun = Deferred.makeUnsafe<void>()
    const ended = Deferred.makeUnsafe<void>()
    const { threads } = world.service.worker
    const inspect = threads.inspect.bind(threads)
    threads.inspect = () =>
      Effect.onInterrupt(
        Effect.suspend(() => {
          Deferred.doneUnsafe(begun, Effect.void)
          return Effect.never
        }),
        () => Effect.sync(() => Deferred.doneUnsafe(ended, Effect.void))
      )
    const body = [
      "--b\r\nContent-Disposition: form-data; name=target_lang\r\n\r\nDE\r\n",
      "--b\r\nContent-Disposition: form-data; name=file; filename=a.txt\r\n\r\nHello\r\n--b--\r\n"
    ].join("")
    const wire = connect(Number(new URL(world.url).port), "127.0.0.1")
    wire.write(
      [
        "POST /v2/document HTTP/1.1",
        "Host: x",
        `Authorization: DeepL-Auth-Key ${world.secret}`,
        "Content-Type: multipart/form-data; boundary=b",
        `Content-Length: ${body.length}`,
        "",
        body
      ].join("\r\n")
    )
    await Effect.runPromise(Deferred.await(begun))
    expect(await world.store.blobs.ids()).toHaveLength(1)
    wire.destroy()
    await Effect.runPromise(Deferred.await(ended))
    threads.inspect = inspect
    const next = await world.upload("a.txt", "Hello")
    expect(next.status).toBe(200)
    await world.close()
    expect(await world.store.blobs.ids()).toHaveLength(1)
  }
)
