/** Entry point of a hashing thread: one scrypt hash per message, in order.
 *  Source: docs/spec/authorization.md, section 7.5. */
import { scryptSync } from "node:crypto"
import { parentPort } from "node:worker_threads"

export interface ScryptJob {
  readonly password: string
  readonly salt: Uint8Array
  /** Length of the hash in bytes. */
  readonly length: number
  readonly N: number
  readonly r: number
  readonly p: number
  /** Limit on the memory in bytes; parameters that require more are refused. */
  readonly maxmem: number
}

export type ScryptAnswer = { readonly hash: Uint8Array } | { readonly fault: string }

const answerOf = ({ password, salt, length, ...cost }: ScryptJob): ScryptAnswer => {
  try {
    return { hash: scryptSync(password, salt, length, cost) }
  } catch (cause) {
    return { fault: cause instanceof Error ? cause.message : String(cause) }
  }
}

parentPort!.on("message", (job: ScryptJob) => parentPort!.postMessage(answerOf(job)))
