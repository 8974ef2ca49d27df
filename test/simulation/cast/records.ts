/** The actors that mostly keep records: breaker, lockout, rate window, token family, chat session. */
import type { AnyDefinition } from "../../../runtime/actor.ts"
import { CircuitBreaker } from "../../../actors/circuit-breaker.ts"
import { Lockout } from "../../../actors/lockout.ts"
import { ProxySession } from "../../../actors/proxy-session.ts"
import { RateWindow } from "../../../actors/rate-window.ts"
import { RefreshFamily } from "../../../actors/refresh-family.ts"
import type { Random } from "../random.ts"
import { nameAmong, oneOf, say, type Role } from "./role.ts"

const breaker: Role = {
  definition: CircuitBreaker as AnyDefinition,
  say: ({ random }) =>
    oneOf(random, [
      [4, () => say("Acquire")],
      [2, () => say("Succeeded")],
      [4, () => say("Failed", { failuresMax: 3, withinMs: 30_000, openMs: 15_000 })],
      [1, () => say("Release")]
    ])
}

const lockout: Role = {
  definition: Lockout as AnyDefinition,
  say: ({ random }) =>
    oneOf(random, [
      [4, () => say("Reserve", { max: 3, windowMs: 60_000 })],
      [4, () => say("Settle", { max: 3, windowMs: 60_000, lockMs: 60_000, failed: random.int(2) === 0 })],
      [1, () => say("Clear")]
    ])
}

const rateWindow: Role = {
  definition: RateWindow as AnyDefinition,
  say: ({ random }) => say("Take", { cost: 1 + random.int(3), limit: 8, windowMs: 2_000 })
}

const grant = {
  clientId: "client",
  clientIssuedMs: 1,
  userId: "user",
  userEpoch: 1,
  resourceId: "resource",
  scopes: ["read"],
  consentId: "consent",
  jkt: "",
  authMs: 1
}

const weekMs = 7 * 86_400_000
const used = new Uint8Array([1])

/** A row that marks a code as spent, which only one of two commits may write. */
const spentCode = (random: Random) => ({
  _tag: "put" as const,
  table: "codes",
  key: [nameAmong(random, "code", 40)],
  value: used,
  when: "absent" as const
})

const family: Role = {
  definition: RefreshFamily as unknown as AnyDefinition,
  say: ({ random, state, nowMs }) => {
    const generation = typeof state["generation"] === "number" ? state["generation"] : 1
    // Some families are over when they begin, so that their expiry falls into the run.
    const absoluteMs = random.chance(0.4) ? nowMs - weekMs + 5_000 : nowMs + 60_000
    return oneOf(random, [
      [
        state._tag === "Empty" ? 8 : 1,
        () => say("Open", { grant, expiresMs: nowMs + 30_000, absoluteMs, rows: [spentCode(random)] })
      ],
      [3, () => say("Inspect")],
      [
        6,
        () =>
          say("Rotate", {
            presentedGeneration: random.chance(0.9) ? generation : generation - 1,
            graceMs: 1_000,
            expiresMs: nowMs + 30_000,
            rows: random.chance(0.3) ? [spentCode(random)] : []
          })
      ],
      [1, () => say("Revoke", { because: "revoked", rows: [] })]
    ])
  }
}

const record = (sessionId: string, status: string) => ({
  sessionId,
  owner: "owner",
  parentId: null,
  status,
  hidden: false,
  background: false,
  streamed: false,
  object: "{}",
  input: "[]",
  messages: "[]",
  bytes: 2,
  upstream: null
})

const proxySession: Role = {
  definition: ProxySession as unknown as AnyDefinition,
  say: ({ random, id }) => {
    const responseId = `${id}-${random.int(4)}`
    const owner = random.chance(0.9) ? "owner" : "stranger"
    return oneOf(random, [
      [4, () => say("Begin", { owner, previousId: responseId, holdMs: 5_000 })],
      [3, () => say("Inspect", { owner, id: responseId })],
      [
        8,
        () =>
          say("Commit", {
            id: responseId,
            record: record(id, random.pick(["completed", "failed", "in_progress"])),
            retentionMs: random.pick([2_000, 30_000, 3_600_000]),
            others: random.chance(0.3),
            work: random.chance(0.3) ? "{}" : null,
            events: Array.from({ length: random.int(3) }, () => ({ type: "event", data: "{}" })),
            eventsFrom: 0
          })
      ],
      [1, () => say("Delete", { owner, id: responseId })],
      [1, () => say("Evict")]
    ])
  }
}

export const recordRoles: ReadonlyArray<Role> = [breaker, lockout, rateWindow, family, proxySession]
