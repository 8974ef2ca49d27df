/** Faults of limits: a queue, lane, body or cache that grows past what it promises. */
import type { Mutant } from "./mutant.ts"

export const capacity: ReadonlyArray<Mutant> = [
  {
    id: "lane-one-more",
    file: "runtime/lane.ts",
    find: "if (this.isEnded || this.items.length >= this.capacity) return false",
    replace: "if (this.isEnded || this.items.length > this.capacity) return false",
    why: "a lane takes one item more than it has room for",
    tests: ["test/runtime/lane.test.ts"]
  },
  {
    id: "gate-queue",
    file: "actors/engines/chat/upstreams.ts",
    find: "if (this.waiting.length >= this.limits.queue)",
    replace: "if (this.waiting.length > this.limits.queue)",
    why: "one caller more than configured waits for a model server",
    tests: ["test/actors/engines/chat/upstreams.test.ts"]
  },
  {
    id: "gate-permit-lost",
    file: "actors/engines/chat/upstreams.ts",
    find: "if (next === undefined) this.running--\n    else next.admit()",
    replace: "this.running--\n    next?.admit()",
    why: "each caller that waited leaves a permit too many behind",
    tests: ["test/actors/engines/chat/upstreams.test.ts"]
  },
  {
    id: "session-turns",
    file: "protocols/chat/rate-limit.ts",
    find: "if (count >= this.turnsMax) throw",
    replace: "if (count > this.turnsMax) throw",
    why: "a session runs one turn more than it may",
    tests: ["test/protocols/chat/answer/sessions.test.ts"]
  },
  {
    id: "turns-in-flight",
    file: "protocols/chat/turn/turn.ts",
    find: "if (this.running.size >= this.deps.settings.inFlightMax) throw",
    replace: "if (this.running.size > this.deps.settings.inFlightMax) throw",
    why: "the server takes one turn more than it may",
    tests: ["test/protocols/chat/turn/faults.test.ts"]
  },
  {
    id: "translation-cache-entry",
    file: "protocols/translation/text/cache.ts",
    find: "    if (chars > this.charsMax / 100) return\n",
    replace: "",
    why: "one long text evicts everybody else's",
    tests: ["test/protocols/translation/text/cache.test.ts"]
  },
  {
    id: "answer-cache-leaks",
    file: "protocols/store/engine/cache.ts",
    find: "    this.bytes -= this.cost(key, entry)\n",
    replace: "",
    why: "the cache counts what it dropped, and soon holds one answer",
    tests: ["test/protocols/store/engine/cache.test.ts"]
  },
  {
    id: "answer-cache-grows",
    file: "protocols/store/engine/cache.ts",
    find: "      if (this.bytes + cost <= this.bytesMax) break\n",
    replace: "      if (this.bytes <= this.bytesMax) break\n",
    why: "the cache holds one answer more than its bytes",
    tests: ["test/protocols/store/engine/cache.test.ts"]
  },
  {
    id: "documents-of-one-account",
    file: "actors/documents/fair-scheduler.ts",
    find: "if (count >= fewest) continue",
    replace: "if (count > fewest) continue",
    why: "one account runs more documents at once than it may",
    tests: ["test/actors/documents/fair-scheduler.test.ts"]
  },
  {
    id: "upstream-answer",
    file: "actors/engines/upstream-call.ts",
    find: "if ((bytes += part.length) > answerBytesMax) return undefined",
    replace: "if (part.length > answerBytesMax) return undefined",
    why: "an upstream that never stops sending fills the memory",
    tests: ["test/actors/engines/translation/upstreams.test.ts"]
  },
  {
    id: "calls-in-flight",
    file: "protocols/translation/account/rate-limit.ts",
    find: "if (using.inFlight >= this.inFlightMax) return",
    replace: "if (using.inFlight > this.inFlightMax) return",
    why: "a key has one call more under way than it may",
    tests: ["test/protocols/translation/account/guard.test.ts"]
  },
  {
    id: "call-never-leaves",
    file: "protocols/translation/account/rate-limit.ts",
    find: "    leave()\n    return answer",
    replace: "    return answer",
    why: "after 64 calls that were answered at once a key is refused for ever",
    tests: ["test/protocols/translation/account/guard.test.ts"]
  },
  {
    id: "counter-max",
    file: "storage/staged-commit.ts",
    find: "if (sum < 0 || (max !== undefined && sum > max)) return",
    replace: "if (sum < 0 || (max !== undefined && sum > max + 1)) return",
    why: "an account uploads one document more than its plan has",
    tests: ["test/laws/store.test.ts"]
  },
  {
    id: "replay-buffer",
    file: "actors/voice/replay-buffer.ts",
    find: "    while (this.samples > this.samplesMax && this.parts.length > 1) this.drop(this.parts[0]!.length)\n",
    replace: "",
    why: "a speaker who never pauses fills the memory",
    tests: ["test/actors/voice/replay-buffer.test.ts"]
  },
  {
    id: "mailbox-one-more",
    file: "runtime/cell.ts",
    find: "if (backlog.length + 1 >= capacity) return",
    replace: "if (backlog.length + 1 > capacity) return",
    why: "a mailbox takes one command more than it has room for",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "residents-without-limit",
    file: "runtime/registry.ts",
    find: "return kind.cells.size < kind.residentMax && this.resident < this.residentMax",
    replace: "return this.resident >= 0",
    why: "actors at work are activated without limit",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "turn-without-budget",
    file: "runtime/cell.ts",
    find: "while (this.firstCommand !== undefined && handled < cellBudget) {",
    replace: "while (this.firstCommand !== undefined) {",
    why: "an actor with a long mailbox starves its neighbours",
    tests: ["test/runtime/cell.test.ts"]
  },
  {
    id: "body-of-node",
    file: "runtime/transport/node.ts",
    find: '      if (bytes > bytesMax) return stop("too-large", exceed)\n',
    replace: "",
    why: "a chunked body without end fills the memory of the fallback adapter",
    tests: ["test/runtime/transport/server.test.ts"],
    only: "413|streamed body|client that goes"
  },
  {
    id: "body-of-uws",
    file: "runtime/transport/uws.ts",
    find: "      if (bytes > bytesMax) {\n        return exceed()\n      }\n",
    replace: "",
    why: "a chunked body without end fills the memory",
    tests: ["test/runtime/transport/server.test.ts"],
    only: "413|streamed body|client that goes"
  },
  {
    id: "stream-of-uws",
    file: "runtime/transport/uws.ts",
    find: '      if (bytes > bytesMax) {\n        this.watched.delete(exchange)\n        return body.fail("too-large")\n      }\n',
    replace: "",
    why: "a streamed upload has no limit",
    tests: ["test/runtime/transport/server.test.ts"],
    only: "413|streamed body|client that goes"
  },
  {
    id: "pool-queue",
    file: "actors/engines/pool.ts",
    find: "if (this.waiters < this.waitersMax) return true",
    replace: "if (this.waiters <= this.waitersMax) return true",
    why: "one waiter more than configured waits for a place",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "pool-unfair",
    file: "actors/engines/pool.ts",
    find: "      this.queues.delete(account)\n      if (queue.length > 0) this.queues.set(account, queue)\n",
    replace: "      if (queue.length === 0) this.queues.delete(account)\n",
    why: "an account with many requests is served to its last before the next has its turn",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "pool-lends-what-is-in-use",
    file: "actors/engines/pool.ts",
    find: "if (!this.isEnded || this.uses > 0 || this.isReturned) return",
    replace: "if (!this.isEnded || this.isReturned) return",
    why: "two speakers share one recognizer when a lease ends in the middle of its use",
    tests: ["test/actors/engines/pool.test.ts"]
  }
]
