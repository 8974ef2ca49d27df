/** Faults of counting in time: rate windows, quotas, lockouts, breakers. */
import type { Mutant } from "./mutant.ts"

export const window: ReadonlyArray<Mutant> = [
  {
    id: "one-call-less",
    file: "actors/rate-window.ts",
    find: "return charged > call.limit",
    replace: "return charged >= call.limit",
    why: "the last call that was paid for is refused",
    tests: ["test/actors/rate-window.test.ts"]
  },
  {
    id: "window-not-aligned",
    file: "actors/rate-window.ts",
    find: "let startMs = nowMs - (nowMs % call.windowMs)",
    replace: "let startMs = nowMs",
    why: "every millisecond begins a window of its own",
    tests: ["test/actors/rate-window.test.ts"]
  },
  {
    id: "clock-steps-back",
    file: "actors/rate-window.ts",
    find: "  if (last.startMs > startMs && last.startMs <= startMs + call.windowMs) startMs = last.startMs\n",
    replace: "",
    why: "a clock that steps back gives the whole window again",
    tests: ["test/actors/rate-window.test.ts"]
  },
  {
    id: "lost-memory",
    file: "actors/rate-window.ts",
    find: "call.lastSeen.charged > last.charged))",
    replace: "call.lastSeen.charged > call.limit))",
    why: "a window whose actor crashed starts empty",
    tests: ["test/actors/rate-window.test.ts"]
  },
  {
    id: "one-guess-more",
    file: "actors/lockout.ts",
    find: "return failures >= max",
    replace: "return failures > max",
    why: "a guesser has one guess more than the limit",
    tests: ["test/actors/lockout.test.ts"]
  },
  {
    id: "pending-guesses-not-counted",
    file: "actors/lockout.ts",
    find: "return recent + pending >= max",
    replace: "return recent >= max",
    why: "a hundred guesses at once are all judged",
    tests: ["test/actors/lockout.test.ts"]
  },
  {
    id: "failures-never-age",
    file: "actors/lockout.ts",
    find: "const fresh = nowMs - state.sinceMs >= windowMs",
    replace: "const fresh = state.sinceMs === 0",
    why: "ten typing errors in a year lock an account",
    tests: ["test/actors/lockout.test.ts"]
  },
  {
    id: "lock-opens-late",
    file: "actors/lockout.ts",
    find: "      Reserve: ({ untilMs }, _, { nowMs }) =>\n        nowMs < untilMs",
    replace: "      Reserve: ({ untilMs }, _, { nowMs }) =>\n        nowMs <= untilMs",
    why: "Retry-After tells a time at which the caller is refused again",
    tests: ["test/actors/lockout.test.ts"]
  },
  {
    id: "breaker-failures-never-age",
    file: "actors/circuit-breaker.ts",
    find: "const inTime = failures > 0 && nowMs - firstMs <= withinMs",
    replace: "const inTime = failures > 0",
    why: "five failures in a week rest an upstream",
    tests: ["test/actors/circuit-breaker.test.ts"]
  },
  {
    id: "address-case",
    file: "protocols/authorization/rate-limit.ts",
    find: "const one = `login/${source}/${email.toLowerCase()}`",
    replace: "const one = `login/${source}/${email}`",
    why: "a guesser who varies the case of the address is never locked out",
    tests: ["test/protocols/authorization/rate-limit.test.ts"]
  },
  {
    id: "period-never-ends",
    file: "protocols/translation/account/usage.ts",
    find: "existing !== undefined && nowMs < existing.endMs && nowMs >= existing.startMs",
    replace: "existing !== undefined",
    why: "a quota that is used up stays used up in the next month",
    tests: ["test/protocols/translation/account/usage.test.ts"]
  },
  {
    id: "reserved-not-counted",
    file: "protocols/translation/account/usage.ts",
    find: "usedOf(account, quota) + account.reserved[quota] + amount > accountMax",
    replace: "usedOf(account, quota) + amount > accountMax",
    why: "requests at once pass the account's limit together",
    tests: ["test/protocols/translation/account/usage.test.ts"]
  },
  {
    id: "store-window-never-ends",
    file: "protocols/store/access/rate-limit.ts",
    find: "bucket === undefined || bucket.startMs + windowMs <= this.options.clock() ? 0 : bucket.used",
    replace: "bucket === undefined ? 0 : bucket.used",
    why: "an address that once used up its window is refused for ever",
    tests: ["test/protocols/store/access/rate-limit.test.ts"]
  },
  {
    id: "store-sign-ins",
    file: "protocols/store/console/sign-in.ts",
    find: "isFailed = session === undefined",
    replace: "isFailed = false",
    why: "passwords of the console can be guessed without limit",
    tests: ["test/protocols/store/console/console.test.ts"]
  },
  {
    id: "crashes-never-age",
    file: "runtime/supervisor.ts",
    find: "    this.timesMs = this.timesMs.filter((at) => at > nowMs - withinMs)\n",
    replace: "",
    why: "four crashes in a month fail an actor",
    tests: ["test/runtime/supervisor.test.ts"]
  },
  {
    id: "rest-by-the-wall-clock",
    file: "runtime/activity.ts",
    find: "this.restUntilMs = this.performer.kind.system.monotonicMs() + restMs",
    replace: "this.restUntilMs = this.performer.kind.system.nowMs() + restMs",
    why: "a wall clock that is set back holds a crashed activity for an hour",
    tests: ["test/runtime/activity.test.ts"]
  }
]
