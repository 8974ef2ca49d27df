/** Faults of generations: which refresh token is the current one, whose epoch a session has. */
import type { Mutant } from "./mutant.ts"

const family = ["test/actors/refresh-family.test.ts"]

export const generation: ReadonlyArray<Mutant> = [
  {
    id: "grace-for-two",
    file: "actors/refresh-family.ts",
    find: "presentedGeneration === currentGeneration - 1 &&",
    replace: "presentedGeneration >= currentGeneration - 2 &&",
    why: "within the grace period a token that was used twice ago is no reuse",
    tests: family
  },
  {
    id: "reuse-off-by-one",
    file: "actors/refresh-family.ts",
    find: `  if (presentedGeneration < currentGeneration) return "superseded"\n`,
    replace: `  if (presentedGeneration < currentGeneration - 1) return "superseded"\n`,
    why: "the token that a thief has just used is as good as the current one",
    tests: family
  },
  {
    id: "ended-off-by-one",
    file: "actors/refresh-family.ts",
    find: `presentedGeneration < currentGeneration ? "superseded" : "revoked"`,
    replace: `presentedGeneration <= currentGeneration ? "superseded" : "revoked"`,
    why: "the owner of the last token of a revoked family is reported as a thief",
    tests: family
  },
  {
    id: "token-of-the-future",
    file: "actors/refresh-family.ts",
    find: `  if (presentedGeneration > currentGeneration) return "unknown"\n`,
    replace: "",
    why: "after a restored backup a token that this server does not remember is taken for the current one",
    tests: family
  },
  {
    id: "rotation-stands-still",
    file: "actors/refresh-family.ts",
    find: "generation: family.generation + 1, expiresMs, usedMs: atMs",
    replace: "generation: family.generation, expiresMs, usedMs: atMs",
    why: "a refresh token can be used for ever",
    tests: family
  },
  {
    id: "successor-is-the-same",
    file: "protocols/authorization/token/grants/refresh-token.ts",
    find: "refreshTokens.encode(familyId, presentedGeneration + 1) }",
    replace: "refreshTokens.encode(familyId, presentedGeneration) }",
    why: "the answer holds the token that was just spent: the client's next refresh ends its family",
    tests: ["test/protocols/authorization/token/grants/refresh-token.test.ts"]
  },
  {
    id: "mac-without-generation",
    file: "protocols/authorization/token/refresh-token-codec.ts",
    find: '`${idHex}.${generation.toString(16).padStart(2 * generationBytes, "0")}`',
    replace: "idHex",
    why: "whoever holds one token of a family can write all its others",
    tests: ["test/protocols/authorization/token/refresh-token-codec.test.ts"]
  },
  {
    id: "grace-of-any-generation",
    file: "protocols/authorization/token/refresh-grace.ts",
    find: "      answer.generation === generation &&\n",
    replace: "",
    why: "an answer is repeated for a token that it did not spend",
    tests: ["test/protocols/authorization/token/refresh-grace.test.ts"]
  },
  {
    id: "epoch-of-the-user",
    file: "protocols/authorization/token/liveness.ts",
    find: `user.status === "active" && user.epoch === epoch ? user`,
    replace: `user.status === "active" ? user`,
    why: "sessions and tokens survive the password change that was to end them",
    tests: ["test/protocols/authorization/token/liveness.test.ts"]
  },
  {
    id: "client-of-the-same-name",
    file: "protocols/authorization/token/liveness.ts",
    find: `client.status !== "revoked" && client.issuedMs === issuedMs`,
    replace: `client.status !== "revoked"`,
    why: "tokens of a deleted client are good for the next one with its id",
    tests: ["test/protocols/authorization/token/liveness.test.ts"]
  },
  {
    id: "exchanges-without-end",
    file: "protocols/authorization/token/grants/token-exchange.ts",
    find: " || parent.generation >= generationsMax",
    replace: "",
    why: "a chain of exchanges grows past what isLive climbs, and every later token is dead at birth",
    tests: ["test/protocols/authorization/token/grants/token-exchange.test.ts"]
  },
  {
    id: "callback-of-a-lost-commit",
    file: "runtime/cell.ts",
    find: "    if (ext.generation !== generation) return\n",
    replace: "",
    why: "the second of two lost commits takes back what was decided after the first",
    tests: ["test/runtime/cell.test.ts"]
  },
  {
    id: "loss-is-no-generation",
    file: "runtime/cell.ts",
    find: "    ext.generation++\n",
    replace: "",
    why: "the callbacks of lost commits pass for those of new ones",
    tests: ["test/runtime/cell.test.ts"]
  },
  {
    id: "start-of-a-left-phase",
    file: "runtime/activity.ts",
    find: "    if (turn !== this.turn) return\n    const { system } = this.performer.kind\n",
    replace: "    const { system } = this.performer.kind\n",
    why: "an activity starts for a phase that was left while the one before it was ending",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "end-of-an-old-activity",
    file: "runtime/activity.ts",
    find: "      if (turn !== this.turn) return\n      if (Exit",
    replace: "      if (Exit",
    why: "an interrupted activity counts as a crash of its actor",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "two-activities",
    file: "runtime/activity.ts",
    find: "    if (before === undefined) start()\n    else before.addObserver(start)",
    replace: "    start()",
    why: "the activity of the next phase begins before that of the last has let go of what it held",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "activity-after-an-end",
    file: "runtime/cell.ts",
    find: '    if (this.extension?.pendingCommits.some(({ ends }) => ends) === true)\n      return done(this.unavailable("storage"))\n',
    replace: "",
    why: "what an activity tells after its actor has ended begins a new actor",
    tests: ["test/runtime/activity.test.ts"]
  },
  {
    id: "voice-token-twice",
    file: "actors/voice-session.ts",
    find: 'if (token !== state.token || state.connection !== "") return',
    replace: "if (token !== state.token) return",
    why: "one token opens two connections to a session",
    tests: ["test/actors/voice-session.test.ts"]
  },
  {
    id: "voice-token-outdated",
    file: "actors/voice-session.ts",
    find: "  presented !== state.token || state.tokens",
    replace: "  !state.tokens.includes(presented) || state.tokens",
    why: "a token that was exchanged before is exchanged again",
    tests: ["test/actors/voice-session.test.ts"]
  }
]
