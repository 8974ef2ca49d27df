/** Measures fixed windows of 50 calls in 10 s over 10,000 keys; the checksum counts the calls that were
 *  allowed. */
import { createRequire } from "node:module"
import { RateWindow } from "../../../actors/rate-window.ts"
import { memorySystem } from "./counter.ts"
import type { Work } from "./work.ts"

const require = createRequire(import.meta.url)

const works: Readonly<Record<string, () => Work>> = {
  floor: () => {
    const windows = new Map<string, { from: number; count: number }>()
    const keys = Array.from({ length: 10_000 }, (_, i) => `key${i}`)
    return async (n) => {
      let allowed = 0
      for (let i = 0; i < n; i++) {
        const key = keys[i % 10_000]!
        const now = Date.now()
        let window = windows.get(key)
        if (window === undefined || now - window.from >= 10_000)
          windows.set(key, (window = { from: now, count: 0 }))
        if (++window.count <= 50) allowed++
      }
      return allowed
    }
  },
  troupe: () => {
    const system = memorySystem()
    const refs = Array.from({ length: 10_000 }, (_, i) => system.ref(RateWindow, `key${i}`))
    const call = { cost: 1, limit: 50, windowMs: 10_000 }
    return async (n) => {
      let allowed = 0
      const count = (answer: object): void => {
        if ("reply" in answer) allowed++
      }
      for (let i = 0; i < n; i++) refs[i % 10_000]!.askNow("Take", call, count)
      return allowed
    }
  },
  flexible: () => {
    const { RateLimiterMemory } = require("rate-limiter-flexible")
    const limiter = new RateLimiterMemory({ points: 50, duration: 10 })
    return async (n) => {
      let allowed = 0
      for (let i = 0; i < n; i++)
        await limiter.consume(`key${i % 10_000}`).then(
          () => {
            allowed++
          },
          () => {}
        )
      return allowed
    }
  }
}

export const rateWindow = (candidate: string): Work | undefined => works[candidate]?.()
