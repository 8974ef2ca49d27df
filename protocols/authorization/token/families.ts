/** Refresh tokens and their families, seen from the edge: making and reading the text, and ending a family
 *  even when the store refuses to write. Token: `rt1.` family id `.` 32 bytes, which are the generation (6)
 *  and a MAC (26): nothing of it is kept.
 *  Source: authorization sections 8.4, 8.5. */
import { timingSafeEqual } from "node:crypto"
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs"
import { RefreshFamily, type Living } from "../../../actors/refresh-family.ts"
import type { Answer, Ref } from "../../../runtime/registry.ts"
import type { Write } from "../../../storage/store.ts"
import { askMaybeSync } from "../../shared/maybe-promise.ts"
import type { AuthContext } from "../auth-context.ts"
import { familyHasEnded } from "./liveness.ts"
import { type Problem, unavailable } from "../problems.ts"

const generationBytes = 6
const macBytes = 26
const retryMsMax = 60_000
export type FamilyAsk = Ref<typeof RefreshFamily>
type Commands = (typeof RefreshFamily)["commands"]

/** Families that must be over although the store could not say so, in a file beside it: one id a line. */
export interface PendingRevocations {
  add(familyId: string): void
  all(): ReadonlyArray<string>
  clear(): void
}

export const intentsInMemory = (): PendingRevocations => {
  const ids = new Set<string>()
  return {
    add: (id) => {
      ids.add(id)
    },
    all: () => [...ids],
    clear: () => ids.clear()
  }
}

export const intentsIn = (path: string): PendingRevocations => ({
  add: (id) => {
    const file = openSync(path, "a", 0o600)
    try {
      writeSync(file, `${id}\n`)
      fsyncSync(file)
    } finally {
      closeSync(file)
    }
  },
  all: () =>
    existsSync(path)
      ? [
          ...new Set(
            readFileSync(path, "utf8")
              .split("\n")
              .filter((line) => line !== "")
          )
        ]
      : [],
  clear: () => rmSync(path, { force: true })
})

interface Looked {
  readonly living: Living | null
  readonly ended: { readonly grant: Living["grant"]; readonly generation: number } | null
}

export class Families {
  private readonly authority: AuthContext
  private readonly intents: PendingRevocations

  /** Must be treated as over, whatever the store says. */
  private readonly doomed = new Set<string>()

  /** The last answer of each family while its successor is unused (8.5, off by default). */
  readonly grace = new Map<
    string,
    {
      readonly generation: number
      readonly clientId: string
      readonly jkt: string
      readonly body: Readonly<Record<string, unknown>>
      readonly untilMs: number
      uses: number
    }
  >()

  /** Revocations that could not be kept, for /metrics. */
  failures = 0

  constructor(authority: AuthContext, intents: PendingRevocations) {
    this.authority = authority
    this.intents = intents
  }

  private macOf(idHex: string, generation: number): Buffer {
    return Buffer.from(
      this.authority.seal.hash(
        `${idHex}.${generation.toString(16).padStart(2 * generationBytes, "0")}`,
        "authorization refresh"
      ),
      "base64url"
    ).subarray(0, macBytes)
  }

  tokenOf(familyId: string, generation: number): string {
    const idHex = familyId.replaceAll("-", "")
    const secret = Buffer.alloc(generationBytes + macBytes)
    secret.writeUIntBE(generation, 0, generationBytes)
    this.macOf(idHex, generation).copy(secret, generationBytes)
    return `rt1.${Buffer.from(idHex, "hex").toString("base64url")}.${secret.toString("base64url")}`
  }

  /** undefined: not a token that we made. */
  read(token: string): { readonly familyId: string; readonly generation: number } | undefined {
    const [, id64, secret64] = /^rt1\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/.exec(token) ?? []
    if (id64 === undefined || secret64 === undefined) return undefined
    const id = Buffer.from(id64, "base64url")
    const secret = Buffer.from(secret64, "base64url")
    const hex = id.toString("hex")
    const generation = secret.readUIntBE(0, generationBytes)
    const mac = secret.subarray(generationBytes)
    if (mac.length !== macBytes || !timingSafeEqual(mac, this.macOf(hex, generation))) return undefined
    return {
      familyId: `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`,
      generation
    }
  }

  isOver(familyId: string): boolean {
    return this.doomed.has(familyId) || familyHasEnded(this.authority, familyId)
  }

  ask<C extends keyof Commands & string>(
    familyId: string,
    command: C,
    payload: Parameters<FamilyAsk["askNow"]>[1]
  ): Promise<Answer<Commands[C]>> {
    return new Promise((resolve) =>
      (this.authority.actors.ref(RefreshFamily, familyId).askNow as any)(command, payload, resolve)
    )
  }

  look(familyId: string): Looked | Problem | Promise<Looked | Problem> {
    return askMaybeSync((done) =>
      this.authority.actors
        .ref(RefreshFamily, familyId)
        .askNow("Inspect", {}, (answer) => done("reply" in answer ? answer.reply : unavailable()))
    )
  }

  /** Ends a family with the rows that go with it. If that cannot be kept it is over all the same, now and
   *  after a restart, and is tried again. */
  async revoke(familyId: string, because: string, rows: ReadonlyArray<Write> = []): Promise<void> {
    const fresh = !this.doomed.has(familyId)
    this.doomed.add(familyId)
    const answer = await this.ask(familyId, "Revoke", { because, rows })
    if ("reply" in answer) {
      // It was over already, and wrote nothing.
      if (answer.reply) this.authority.books.written(rows)
      else if (rows.length > 0) await this.authority.books.write(rows)
      if (fresh) this.doomed.delete(familyId)
      return
    }
    this.failed(familyId, because, 1_000)
  }

  /** An older token was shown: over in memory first, then in the store. */
  async reused(familyId: string, generation: number): Promise<void> {
    this.doomed.add(familyId)
    const answer = await this.ask(familyId, "Rotate", { generation, expiresMs: 0, rows: [] })
    if ("refuse" in answer) this.doomed.delete(familyId)
    else this.failed(familyId, "reuse", 1_000)
  }

  private failed(familyId: string, because: string, waitMs: number): void {
    const { audit, log } = this.authority
    this.failures++
    try {
      this.intents.add(familyId)
    } catch (cause) {
      log("error", "a revocation intent could not be written", { familyId, cause: String(cause) })
    }
    log("error", "a token family could not be revoked in the store", { familyId })
    audit.later("family.revocation_failed", { detail: { family_id: familyId } })
    const retry = setTimeout(
      () =>
        void this.ask(familyId, "Revoke", { because, rows: [] }).then((answer) => {
          if ("reply" in answer) this.doomed.delete(familyId)
          else this.failed(familyId, because, Math.min(2 * waitMs, retryMsMax))
        }),
      waitMs
    )
    retry.unref()
  }

  /** At start, before anything is answered. */
  async resume(): Promise<void> {
    const left = this.intents.all()
    for (const familyId of left) this.doomed.add(familyId)
    const answers = await Promise.all(
      left.map((familyId) => this.ask(familyId, "Revoke", { because: "reuse", rows: [] }))
    )
    if (answers.every((answer) => "reply" in answer)) {
      this.intents.clear()
      this.doomed.clear()
      return
    }
    for (const [at, answer] of answers.entries())
      if (!("reply" in answer)) this.failed(left[at]!, "reuse", 1_000)
  }
}
