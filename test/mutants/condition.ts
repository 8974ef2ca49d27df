/** Faults of row conditions: two requests read the same row, and both act on it. */
import type { Mutant } from "./mutant.ts"

const both = ["test/storage/storage.test.ts", "test/laws/store.test.ts"]
const code = ["test/protocols/authorization/token/grants/authorization-code.test.ts"]

export const condition: ReadonlyArray<Mutant> = [
  {
    id: "code-redeemed-twice",
    file: "protocols/authorization/token/grants/authorization-code.ts",
    find: "jti: minted.issuance.jti },\n        Codes.unchanged(code)\n      ),",
    replace: "jti: minted.issuance.jti }\n      ),",
    why: "one code, presented twice at once, yields two families",
    tests: code
  },
  {
    id: "failed-attempts",
    file: "protocols/authorization/token/grants/authorization-code.ts",
    find: "failedAttempts: code.failedAttempts + 1 }, Codes.unchanged(code))",
    replace: "failedAttempts: code.failedAttempts + 1 })",
    why: "a wrong attempt that comes with the right one makes a spent code fresh again",
    tests: code
  },
  {
    id: "state-replayed",
    file: "protocols/authorization/upstream/sealed-state.ts",
    find: `UsedStates.put(key, { expiresMs }, "absent")`,
    replace: "UsedStates.put(key, { expiresMs })",
    why: "the answer of an identity provider can be played again",
    tests: ["test/protocols/authorization/upstream/sealed-state.test.ts"]
  },
  {
    id: "proof-replayed",
    file: "protocols/authorization/token/dpop.ts",
    find: `books.expiring(ProofIds, [id], { expiresMs: untilMs }, untilMs, "absent")`,
    replace: "books.expiring(ProofIds, [id], { expiresMs: untilMs }, untilMs)",
    why: "a proof of possession works for whoever has overheard it",
    tests: ["test/protocols/authorization/token/dpop.test.ts"]
  },
  {
    id: "exchange-of-a-revoked-token",
    file: "protocols/authorization/token/grants/token-exchange.ts",
    find: "    Issuances.check([parent.jti], Issuances.unchanged(parent)),\n",
    replace: "",
    why: "a subject token that is revoked while it is exchanged leaves a row behind",
    tests: ["test/protocols/authorization/token/grants/token-exchange.test.ts"]
  },
  {
    id: "consent-overwritten",
    file: "protocols/authorization/consents.ts",
    find: `existing === undefined ? "absent" : Consents.unchanged(existing)),`,
    replace: `existing === undefined ? "absent" : "present"),`,
    why: "allowing revives a consent that was revoked in another window meanwhile",
    tests: ["test/protocols/authorization/browser/consent.test.ts"]
  },
  {
    id: "login-of-a-spent-request",
    file: "protocols/authorization/browser/authorize.ts",
    find: `    { ...request, userId, sessionHash, phase: "consent" as const },
    Requests.unchanged(request)`,
    replace: `    { ...request, userId, sessionHash, phase: "consent" as const }`,
    why: "of two logins for one request the later takes the request over from the earlier",
    tests: ["test/protocols/authorization/browser/login.test.ts"]
  },
  {
    id: "subject-taken",
    file: "protocols/store/access/staff.ts",
    find: `Subjects.put([subject], { userId: id }, "absent")`,
    replace: "Subjects.put([subject], { userId: id })",
    why: "a new user takes over the name under which another signs in",
    tests: ["test/protocols/store/access/staff.test.ts"]
  },
  {
    id: "deleted-app",
    file: "protocols/store/access/apps.ts",
    find: `Apps.put([appId], app, "present")`,
    replace: "Apps.put([appId], app)",
    why: "a change that comes with a deletion brings the app back",
    tests: ["test/protocols/store/access/apps.test.ts"]
  },
  {
    id: "own-writes-unseen",
    file: "storage/staged-commit.ts",
    find: "    return this.own?.has(name) === true ? this.own.get(name) : this.accepted.readNamed(name, key)",
    replace: "    return this.accepted.readNamed(name, key)",
    why: "two writes of one commit contradict each other, and both are accepted",
    tests: both
  },
  {
    id: "leaving-unseen",
    file: "storage/writer.ts",
    find: "this.waiting.get(name) ?? this.leaving.get(name)",
    replace: "this.waiting.get(name)",
    why: "while a transaction is flushed, conditions are checked against the disk before it",
    tests: ["test/storage/writer.test.ts"]
  },
  {
    id: "prefix-equals",
    file: "storage/staged-commit.ts",
    find: "bytes !== undefined && Buffer.compare(bytes, when.equals) === 0",
    replace: "bytes !== undefined && bytes.length === when.equals.length",
    why: "a row that changed without changing its length passes for unchanged",
    tests: both
  },
  {
    id: "refused-row-answers-as-if",
    file: "runtime/cell.ts",
    find: "answer(decision.otherwise.answer, done)",
    replace: "answer(decision.answer, done)",
    why: "the caller hears success for a step whose condition did not hold",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  },
  {
    id: "refused-row-keeps-the-state",
    file: "runtime/cell.ts",
    find: "    const { generation } = ext\n    const conflict = kind",
    replace: "    const { generation } = ext\n    this.setState(state)\n    const conflict = kind",
    why: "an actor goes on from a state that was never written",
    tests: ["test/runtime/kernel.test.ts", "test/runtime/cracks.test.ts"]
  }
]
