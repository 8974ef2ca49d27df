/** Quotas over billing periods, and of requests that run at once. Source: docs/spec/translation.md, sections
 *  6.1 and 15.5. */
import { expect, it } from "vitest"
import { createAccount, createKey, periodOf } from "../../../../protocols/translation/account/records.ts"
import {
  Usage,
  type QuotaExceeded,
  type Reservation
} from "../../../../protocols/translation/account/usage.ts"
import { openMemory } from "../../../../storage/memory.ts"

const createdMs = Date.UTC(2026, 0, 31)

const opened = async () => {
  const store = openMemory()
  const clock = { nowMs: createdMs }
  const account = await createAccount(store, { tier: "paid", nowMs: createdMs, limits: { characters: 100 } })
  const keyOf = async (characters: number | null) => ({
    account,
    key: (await createKey(store, (secret) => secret, account, { nowMs: createdMs, limits: { characters } }))
      .key,
    inFlight: 0
  })
  const usage = new Usage(store, () => clock.nowMs)
  return { clock, usage, keyOf, using: await keyOf(null) }
}

const granted = (answer: Reservation | QuotaExceeded): answer is Reservation => !("_tag" in answer)

it("a quota that is used up is whole again with the next period, to the millisecond", async () => {
  const { clock, usage, using } = await opened()
  const reservation = usage.reserve(using, "translate", 100)
  if (granted(reservation)) void reservation.book()
  expect(granted(usage.reserve(using, "translate", 1))).toBe(false)
  const { endMs } = periodOf(createdMs, createdMs)
  clock.nowMs = endMs - 1
  expect(granted(usage.reserve(using, "translate", 1))).toBe(false)
  clock.nowMs = endMs
  expect(granted(usage.reserve(using, "translate", 100))).toBe(true)
  expect(granted(usage.reserve(using, "translate", 1))).toBe(false)
})

it("what is reserved counts until it is released, for the account and for the key", async () => {
  const { usage, keyOf, using } = await opened()
  const limited = await keyOf(50)
  const first = usage.reserve(using, "translate", 60)
  expect(usage.reserve(limited, "document", 41)).toEqual({ _tag: "QuotaExceeded", owner: "account" })
  const second = usage.reserve(limited, "document", 40)
  expect(usage.reserve(limited, "document", 1)).toEqual({ _tag: "QuotaExceeded", owner: "account" })
  if (granted(first)) first.release()
  expect(usage.reserve(limited, "document", 11)).toEqual({ _tag: "QuotaExceeded", owner: "key" })
  expect(granted(usage.reserve(limited, "document", 10))).toBe(true)
  if (granted(second)) void second.book(5)
  expect(granted(usage.reserve(limited, "document", 35))).toBe(true)
})
