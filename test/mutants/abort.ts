/** Faults of leaving: the client goes, a deadline passes, and somebody works on. */
import type { Mutant } from "./mutant.ts"

const http1 = ["test/actors/engines/chat/http1.test.ts"]
const faults = ["test/protocols/chat/turn/faults.test.ts", "test/protocols/chat/clients-disconnect.test.ts"]

export const abort: ReadonlyArray<Mutant> = [
  {
    id: "turn-without-client",
    file: "protocols/chat/turn/turn.ts",
    find: `    client?.onAborted(() => this.stop("disconnected"))\n`,
    replace: "",
    why: "the model goes on to be paid for an answer that nobody reads",
    tests: faults
  },
  {
    id: "call-without-listener",
    file: "actors/engines/chat/http-client.ts",
    find: `    this.signal.addEventListener("abort", this.abort, { once: true })\n`,
    replace: "",
    why: "the call of an aborted turn holds its socket until the model has ended",
    tests: [...http1, ...faults]
  },
  {
    id: "call-after-abort",
    file: "actors/engines/chat/http-client.ts",
    find: "    if (this.signal.aborted) {\n      this.abort()\n      return false\n    }\n",
    replace: "",
    why: "a call that was aborted before it began is sent",
    tests: ["test/actors/engines/chat/http-client.test.ts"]
  },
  {
    id: "socket-not-abandoned",
    file: "actors/engines/chat/http-client.ts",
    find: "    this.exchange?.abandon(this)\n    this.reject(fault)",
    replace: "    this.reject(fault)",
    why: "the socket of an aborted call stays open, and the model goes on",
    tests: [...http1, ...faults]
  },
  {
    id: "queue-forgets-to-listen",
    file: "actors/engines/chat/upstreams.ts",
    find: `      if (signal.aborted) abort()\n      else signal.addEventListener("abort", abort, { once: true })`,
    replace: "      if (signal.aborted) abort()",
    why: "a client that went holds its place in the queue",
    tests: ["test/actors/engines/chat/upstreams.test.ts"]
  },
  {
    id: "retry-after-abort",
    file: "actors/engines/chat/attempts.ts",
    find: "if (sink.firstEventSent || signal.aborted || !mayRepeat",
    replace: "if (sink.firstEventSent || !mayRepeat",
    why: "a call is repeated for a client that has left",
    tests: ["test/actors/engines/chat/attempts.test.ts"]
  },
  {
    id: "pause-after-abort",
    file: "actors/engines/chat/attempts.ts",
    find: `    if (signal.aborted) abort()\n    else signal.addEventListener("abort", abort, { once: true })\n  })`,
    replace: "    if (signal.aborted) abort()\n  })",
    why: "a client that goes during the pause before a retry is waited for",
    tests: ["test/actors/engines/chat/attempts.test.ts"]
  },
  {
    id: "probe-not-released",
    file: "actors/engines/chat/attempts.ts",
    find: `    breaker.tell("Release", {})\n`,
    replace: "",
    why: "a probe whose caller left the queue keeps the breaker half open for ten minutes",
    tests: ["test/actors/engines/chat/attempts.test.ts"]
  },
  {
    id: "translation-not-interrupted",
    file: "protocols/translation/text/translator-call.ts",
    find: "return Effect.timeoutOrElse(work, {",
    replace: "return Effect.timeoutOrElse(Effect.uninterruptible(work), {",
    why: "after 4.5 s, or when its client has left, the engine goes on with a text that nobody waits for",
    tests: ["test/protocols/translation/text/translator-call.test.ts"]
  },
  {
    id: "effect-never-leaves",
    file: "protocols/translation/account/rate-limit.ts",
    find: "    if (Effect.isEffect(answer)) return Effect.ensuring(answer, Effect.sync(leave))\n",
    replace: "    if (Effect.isEffect(answer)) return answer\n",
    why: "a call that was interrupted counts as under way for ever",
    tests: ["test/protocols/translation/account/guard.test.ts"]
  },
  {
    id: "fetch-without-signal",
    file: "actors/engines/upstream-call.ts",
    find: `{ method: "POST", headers, body, signal }`,
    replace: `{ method: "POST", headers, body }`,
    why: "an interrupted call goes on at the upstream, which bills it",
    tests: ["test/actors/engines/translation/upstreams.test.ts"]
  },
  {
    id: "half-a-blob",
    file: "storage/blobs.ts",
    find: "        await rm(temporary, { force: true })\n",
    replace: "",
    why: "each upload that breaks off leaves its bytes on disk until the next start",
    tests: ["test/storage/blobs.test.ts"]
  },
  {
    id: "producer-not-forgotten",
    file: "runtime/lane.ts",
    find: "        this.producers = this.producers.filter((waiting) => waiting !== wake)\n",
    replace: "",
    why: "a producer that was interrupted stays in the list of those who wait for room",
    tests: ["test/runtime/lane.test.ts"]
  },
  {
    id: "activity-not-interrupted",
    file: "runtime/activity.ts",
    find: "    this.fiber?.interruptUnsafe()\n",
    replace: "",
    why: "an activity works on in a phase that its actor has left",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "ask-keeps-its-deadline",
    file: "runtime/reference.ts",
    find: "        return Effect.sync(() => {\n          later = ignore\n          deadline.cancel()\n        })",
    replace: "        return Effect.sync(() => {\n          later = ignore\n        })",
    why: "each ask of a client that went holds its closure until the deadline",
    tests: ["test/runtime/reference.test.ts"]
  },
  {
    id: "retry-of-a-left-phase",
    file: "runtime/activity.ts",
    find: "      return Effect.sync(() => retry?.cancel())\n",
    replace: "      return Effect.sync(() => retry)\n",
    why: "an interrupted activity stays in the timers",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "node-client-goes",
    file: "runtime/transport/node.ts",
    find: "      if (!message.complete && !reply.writableFinished) exchange.abort()\n",
    replace: "",
    why: "a client that goes in the middle of its upload is waited for",
    tests: ["test/runtime/transport/server.test.ts"],
    only: "413|streamed body|client that goes",
    equivalent:
      "the reply closes with the connection too, and its listener aborts the exchange; what this line adds is that a listener hears it a second time"
  },
  {
    id: "signal-after-the-fact",
    file: "runtime/transport/node-exchange.ts",
    find: "    if (this.aborted) this.controller.abort()\n",
    replace: "",
    why: "a handler that asks for the signal late never hears that its client has gone",
    tests: ["test/runtime/transport/server.test.ts"],
    only: "413|streamed body|client that goes"
  },
  {
    id: "lease-of-a-waiter-that-left",
    file: "actors/engines/pool.ts",
    find: "          if (waiter.lease === undefined) this.remove(waiter)\n          else waiter.lease.release()\n",
    replace: "          if (waiter.lease === undefined) this.remove(waiter)\n",
    why: "a place that was given to somebody who has just left is lost for good",
    tests: ["test/actors/engines/pool.test.ts"],
    equivalent:
      "resume runs the waiter's fiber before it returns, so no interruption comes between the lease and its waiter: an interrupted waiter never has one; the branch is for a scheduler that would put that off"
  },
  {
    id: "waiter-that-left",
    file: "actors/engines/pool.ts",
    find: "          if (waiter.lease === undefined) this.remove(waiter)\n          else waiter.lease.release()\n",
    replace: "          if (waiter.lease !== undefined) waiter.lease.release()\n",
    why: "a client that has left holds its place in the queue, and gets a lease that nobody ends",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "lease-of-interrupted-work",
    file: "actors/engines/pool.ts",
    find: "Effect.onExit(restore(work(lease.resource)), () => Effect.sync(() => lease.release()))",
    replace: "Effect.tap(restore(work(lease.resource)), () => Effect.sync(() => lease.release()))",
    why: "work that fails or is interrupted holds its place for good",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "reservation-of-a-client-that-left",
    file: "protocols/translation/account/reserved-work.ts",
    find: "Effect.onError(restore(work), () => Effect.sync(() => reservation.release()))",
    replace: "Effect.tapError(restore(work), () => Effect.sync(() => reservation.release()))",
    why: "each client that leaves takes its text off the quota until the server is started again",
    tests: ["test/protocols/translation/text/text.test.ts"]
  },
  {
    id: "drain-waits-for-requests",
    file: "runtime/transport/answering.ts",
    find: "    await Promise.race([Effect.runPromise(Fiber.interruptAll([...this.running])), late])\n",
    replace: "    await late\n",
    why: "a shutdown cuts the requests that it should have interrupted",
    tests: ["test/runtime/transport/answering.test.ts"]
  }
]
