/** Faults of ends in time: codes, tokens, sessions, jobs, handles. */
import type { Mutant } from "./mutant.ts"

const access = ["test/protocols/store/access/access.test.ts"]

export const expiry: ReadonlyArray<Mutant> = [
  {
    id: "is-live",
    file: "protocols/authorization/token/liveness.ts",
    find: "  issuance.expiresMs > authority.nowMs() &&\n",
    replace: "",
    why: "lists and introspection call an expired token active",
    tests: ["test/protocols/authorization/token/liveness.test.ts"]
  },
  {
    id: "own-token",
    file: "protocols/authorization/token/tokens.ts",
    find: "    exp * 1_000 <= nowMs() ||\n",
    replace: "",
    why: "the claim of a token's end is not read",
    tests: ["test/protocols/authorization/token/liveness.test.ts"],
    equivalent:
      "mint writes exp * 1,000 into the token's row as expiresMs, and isLive, which follows, compares that with the same clock; the claim is only read to answer before the row is"
  },
  {
    id: "code",
    file: "protocols/authorization/token/grants/authorization-code.ts",
    find: "if (nowMs() >= code.expiresMs || code.failedAttempts",
    replace: "if (code.failedAttempts",
    why: "a code from a browser's history is good for ever",
    tests: ["test/protocols/authorization/token/grants/authorization-code.test.ts"]
  },
  {
    id: "browser-session",
    file: "protocols/authorization/browser/sessions.ts",
    find: "session === undefined || this.authority.nowMs() >= session.expiresMs",
    replace: "session === undefined",
    why: "a stolen cookie is good for ever",
    tests: ["test/protocols/authorization/browser/sessions.test.ts"]
  },
  {
    id: "refresh-absolute",
    file: "actors/refresh-family.ts",
    find: `nowMs >= family.expiresMs || nowMs >= family.absoluteMs ? "expired"`,
    replace: `nowMs >= family.expiresMs ? "expired"`,
    why: "a family that is used often enough never ends",
    tests: ["test/actors/refresh-family.test.ts"]
  },
  {
    id: "refresh-past-absolute",
    file: "actors/refresh-family.ts",
    find: "expiresMs: Math.min(expiresMs, state.absoluteMs), atMs: nowMs",
    replace: "expiresMs, atMs: nowMs",
    why: "a refresh token says that it outlives its family",
    tests: ["test/actors/refresh-family.test.ts"]
  },
  {
    id: "grace-ends",
    file: "actors/refresh-family.ts",
    find: "nowMs < family.usedMs + graceMs",
    replace: "nowMs <= family.usedMs + graceMs",
    why: "without a grace period a token that is used twice in one millisecond is no reuse",
    tests: ["test/actors/refresh-family.test.ts"]
  },
  {
    id: "app-token",
    file: "protocols/store/access/app-tokens.ts",
    find: "      stored.expiresMs <= this.clock() ||\n",
    replace: "",
    why: "a token of an app is good for ever",
    tests: ["test/protocols/store/access/app-tokens.test.ts", ...access]
  },
  {
    id: "console-session",
    file: "protocols/store/access/staff.ts",
    find: "found === undefined || found.createdMs + sessionMs <= nowMs || found",
    replace: "found === undefined || found",
    why: "a session that is used every half hour never ends",
    tests: ["test/protocols/store/access/staff.test.ts"]
  },
  {
    id: "console-session-idle",
    file: "protocols/store/access/staff.ts",
    find: " || found.seenMs + idleMs <= nowMs)",
    replace: ")",
    why: "a console that was left open stays open for the day",
    tests: ["test/protocols/store/access/staff.test.ts"]
  },
  {
    id: "chat-session",
    file: "actors/proxy-session.ts",
    find: "if (nowMs >= dueMs(state) || state.owner !== owner) return undefined",
    replace: "if (state.owner !== owner) return undefined",
    why: "a response is readable after the end that its owner was promised",
    tests: ["test/actors/proxy-session.test.ts"]
  },
  {
    id: "document",
    file: "actors/document-job.ts",
    find: "  facts.nowMs >= state.atMs + retentionMs ? remove",
    replace: "  facts.nowMs > state.atMs + retentionMs ? remove",
    why: "the sweep comes at the very time, is refused, and the document stays for ever",
    tests: ["test/actors/document-job.test.ts"]
  },
  {
    id: "prompt",
    file: "protocols/authorization/browser/consent.ts",
    find: "        prompt.expiresMs > services.nowMs() &&\n",
    replace: "",
    why: "a question of last week can still be answered",
    tests: ["test/protocols/authorization/browser/consent.test.ts"]
  },
  {
    id: "nonce",
    file: "protocols/authorization/token/dpop.ts",
    find: "return ageMs >= 0 && ageMs < this.authority.settings.dpop.nonceMs",
    replace: "return ageMs >= 0",
    why: "proofs that were made in advance are good for ever",
    tests: ["test/protocols/authorization/token/dpop.test.ts"]
  },
  {
    id: "state",
    file: "protocols/authorization/upstream/sealed-state.ts",
    find: "return this.authority.nowMs() - value.atMs <= this.maxAgeMs ? value : undefined",
    replace: "return value",
    why: "a round trip that was begun yesterday is accepted, after its spent state was swept away",
    tests: ["test/protocols/authorization/upstream/sealed-state.test.ts"]
  },
  {
    id: "cached-answer",
    file: "protocols/store/engine/cache.ts",
    find: "      entry.expiresMs <= nowMs ||\n",
    replace: "",
    why: "an answer that depends on the time is served for ever",
    tests: ["test/protocols/store/engine/cache.test.ts"]
  },
  {
    id: "idempotency-key",
    file: "protocols/store/engine/idempotency.ts",
    find: "earlier !== undefined && earlier.atMs + lifeMs > this.engine.clock()",
    replace: "earlier !== undefined",
    why: "a key of last month answers with last month's order",
    tests: ["test/protocols/store/engine/idempotency.test.ts"]
  },
  {
    id: "index",
    file: "storage/writer.ts",
    find: "if ((key[1] as number) > nowMs) break",
    replace: "if ((key[1] as number) >= nowMs) break",
    why: "what ends now is not swept now",
    tests: ["test/laws/store.test.ts"]
  },
  {
    id: "ask-deadline-by-the-wall-clock",
    file: "runtime/reference.ts",
    find: "system.timers.after(timeoutMs, () => {",
    replace: "system.timers.after(system.nowMs() + timeoutMs, () => {",
    why: "a wall clock that is set back leaves asks without a deadline",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "late-answer",
    file: "runtime/reference.ts",
    find: "          later = ignore\n          resume(Effect.fail(new AskTimeout(",
    replace: "          resume(Effect.fail(new AskTimeout(",
    why: "a late answer resumes a fiber that has gone on",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"],
    equivalent:
      "resume of Effect.callback counts once: what a late answer resumes is a fiber that has its fault already, and cancelling a timer that has fired does nothing"
  },
  {
    id: "sweep-from-the-beginning",
    file: "runtime/registry.ts",
    find: "this.expiryCursor = due.length === expiredPerSweep ? due.at(-1) : undefined",
    replace: "this.expiryCursor = undefined",
    why: "a thousand actors that cannot expire hold up all others",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "expiry-set-before-acceptance",
    file: "runtime/cell.ts",
    find: '        if (expiresAtMs !== ext.expiresAtMs)\n          writes.push({ _tag: "expire", kind: kind.name, id: this.id, atMs: expiresAtMs })',
    replace:
      '        if (expiresAtMs !== ext.expiresAtMs)\n          writes.push({ _tag: "expire", kind: kind.name, id: this.id, atMs: (ext.expiresAtMs = expiresAtMs) })',
    why: "after a refused row the time of expiry is never written",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "expiry-after-a-restart",
    file: "runtime/cell.ts",
    find: "      if (expiresAtMs !== undefined) this.ensureExtension().expiresAtMs = expiresAtMs\n      else if (this.extension",
    replace: "      if (this.extension",
    why: "an actor that comes back does not know its time of expiry, and never clears it",
    tests: ["test/runtime/cell.test.ts"]
  },
  {
    id: "voice-token",
    file: "actors/voice-session.ts",
    find: "  if (facts.nowMs > state.issuedMs + connectWithinMs) return sessionGone()\n",
    replace: "",
    why: "a token of a voice session can be used for as long as the session lives",
    tests: ["test/actors/voice-session.test.ts"]
  },
  {
    id: "voice-session",
    file: "actors/voice-session.ts",
    find: "Math.min(state.createdMs + sessionMsMax, waitsUntilMs(state))",
    replace: "waitsUntilMs(state)",
    why: "a voice session that is renewed often enough never ends",
    tests: ["test/actors/voice-session.test.ts"]
  },
  {
    id: "quality-job",
    file: "actors/quality-job.ts",
    find: "  if (nowMs < endedMs + retentionMs) return reply(undefined)\n",
    replace: "  if (nowMs <= endedMs + retentionMs) return reply(undefined)\n",
    why: "the sweep comes at the very time, is refused, and the job stays for ever",
    tests: ["test/actors/quality-job.test.ts"]
  },
  {
    id: "memory-job",
    file: "actors/memory-job.ts",
    find: "nowMs >= (expiresAt(state) ?? Infinity) ? forget",
    replace: "nowMs > (expiresAt(state) ?? Infinity) ? forget",
    why: "the sweep comes at the very time, is refused, and the record stays for ever",
    tests: ["test/actors/memory-job.test.ts"]
  },
  {
    id: "running-chat-turn",
    file: "actors/proxy-session.ts",
    find: "Math.max(expiresAtMs, heldUntilMs)",
    replace: "expiresAtMs",
    why: "a session expires under a turn that is running",
    tests: ["test/actors/proxy-session.test.ts"]
  },
  {
    id: "renewed-lease",
    file: "actors/engines/pool.ts",
    find: "      if (this.pool.clock.monotonicMs() >= this.expiresMs) this.release()\n      else this.schedule()\n",
    replace: "      this.release()\n",
    why: "a live session loses its recognizer in the middle of a word",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "lease-without-timer",
    file: "actors/engines/pool.ts",
    find: "    if (this.expiresMs < this.timerMs) this.schedule()\n",
    replace: "    if (this.timerMs === this.expiresMs) this.schedule()\n",
    why: "a client that was lost holds the recognizer for ever",
    tests: ["test/actors/engines/pool.test.ts"]
  },
  {
    id: "lease-ends-twice",
    file: "actors/engines/pool.ts",
    find: "  release(): void {\n    if (this.isEnded) return\n",
    replace: "  release(): void {\n",
    why: "the second end of a lease ends that of the next owner of the same name",
    tests: ["test/actors/engines/pool.test.ts"]
  }
]
