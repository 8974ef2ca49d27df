/** Staff of the store: users with areas, their passwords (scrypt), and their console sessions, which are
 *  stored as hashes and last 12 h, 30 min when idle. Guarantee: taking an area away applies to the next
 *  request.
 *  Source: docs/spec/store.md, sections 3.3.5, 3.4, 8.5 "users". */
import { randomBytes, timingSafeEqual } from "node:crypto"
import { Effect, Schema } from "effect"
import { committed, table, type Store } from "../../../storage/store.ts"
import { ScryptThreads } from "../../../actors/hashing/scrypt-threads.ts"
import { areas as allAreas, type Area } from "./scopes.ts"
import type { Secrets } from "./app-tokens.ts"
import type { Engine } from "../engine/engine.ts"
import { valueOf } from "../engine/resource.ts"

const Access = Schema.Struct({
  userId: Schema.Finite,
  username: Schema.String,
  areas: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  /** `salt.hash` in base64url; empty for users who sign in elsewhere. */
  password: Schema.String
})

/** Users' access by [user id]. */
const Accesses = table("store-staff", Access)

/** User ids by [subject of the authorization server]. */
const Subjects = table("store-staff-subjects", Schema.Struct({ userId: Schema.Finite }))

/** Sessions by [hash]. */
const Sessions = table(
  "store-sessions",
  Schema.Struct({ userId: Schema.Finite, createdMs: Schema.Finite, seenMs: Schema.Finite })
)

export interface Member {
  readonly userId: number
  readonly username: string
  readonly areas: ReadonlySet<Area>
}

export const sessionMs = 12 * 3_600_000
const idleMs = 30 * 60_000
const seenEveryMs = 60_000
const sweptPerSession = 8
const passwordLength = { min: 8, max: 200 }

/** A password hash that no password has; checking it costs as much as any other. */
const noPassword = `${"A".repeat(22)}.${"A".repeat(43)}`

export interface NewMember {
  readonly username: string
  /** Absent for users who sign in elsewhere. */
  readonly password?: string
  readonly areas?: ReadonlyArray<Area>
  /** The name of this user at the authorization server; the username when absent. */
  readonly subject?: string
  readonly email?: string
}

export interface MemberChange {
  readonly areas?: ReadonlyArray<Area>
  readonly enabled?: boolean
}

const cost = { length: 32, N: 16_384, r: 8, p: 1, maxmem: 64 * 1_024 * 1_024 }

export class Staff {
  private readonly threads = new ScryptThreads({ threadsMax: 2, waitingMax: 64 })
  private readonly engine: Engine
  private readonly store: Store
  private readonly secrets: Secrets

  constructor(engine: Engine, secrets: Secrets) {
    this.engine = engine
    this.store = engine.store
    this.secrets = secrets
  }

  close(): void {
    this.threads.close()
  }

  member(userId: number): Member | undefined {
    const access = Accesses.get(this.store, [userId])
    return access === undefined || !access.enabled
      ? undefined
      : { userId, username: access.username, areas: new Set(access.areas as ReadonlyArray<Area>) }
  }

  bySubject(subject: string): Member | undefined {
    const found = Subjects.get(this.store, [subject])
    return found === undefined ? undefined : this.member(found.userId)
  }

  async add({
    username,
    password,
    areas = allAreas,
    subject = username,
    email = ""
  }: NewMember): Promise<number> {
    const encoded = password === undefined ? "" : await this.encodePassword(password)
    const added = this.engine.write((tx) => {
      const { id } = tx.insert("users", { username, email })
      tx.writes.push(
        Accesses.put([id], { userId: id, username, areas, enabled: true, password: encoded }, "absent"),
        Subjects.put([subject], { userId: id }, "absent")
      )
      return id
    })
    return Effect.runPromise(added)
  }

  async change(userId: number, change: MemberChange): Promise<void> {
    const access = Accesses.get(this.store, [userId])
    if (access === undefined) throw new RangeError("there is no such user")
    await committed(this.store, [Accesses.put([userId], { ...access, ...change })])
  }

  private derive(password: string, salt: Buffer): Promise<Buffer> {
    return Effect.runPromise(this.threads.hash({ password, salt, ...cost }))
  }

  private async encodePassword(password: string): Promise<string> {
    if (password.length < passwordLength.min || password.length > passwordLength.max)
      throw new RangeError(`a password has ${passwordLength.min} to ${passwordLength.max} characters`)
    const salt = randomBytes(16)
    const hash = await this.derive(password, salt)
    return `${salt.toString("base64url")}.${hash.toString("base64url")}`
  }

  /** Opens a session and returns its secret; undefined when name or password are wrong, after the same work
   *  either way. Rejects with HashQueueFull when too many passwords are waiting. */
  async signIn(username: string, password: string): Promise<string | undefined> {
    const found = this.engine.byUnique("username", username)
    const access = found === undefined ? undefined : Accesses.get(this.store, [found[1]])
    const encoded = access === undefined || access.password === "" ? noPassword : access.password
    const [salt, hash] = encoded.split(".") as [string, string]
    const derived = await this.derive(password.slice(0, passwordLength.max), Buffer.from(salt, "base64url"))
    const isRight = timingSafeEqual(derived, Buffer.from(hash, "base64url"))
    return isRight && access !== undefined && access.enabled && access.password !== ""
      ? this.open(access.userId)
      : undefined
  }

  async open(userId: number): Promise<string> {
    const session = this.secrets.random()
    const nowMs = this.engine.clock()
    const opened = this.engine.write((tx) => {
      const hash = this.hash(session)
      // Hashes are random, so those after a new one are a fair sample: old sessions are deleted as new ones
      // come.
      for (const { key, value } of Sessions.range(this.store, { after: [hash], limit: sweptPerSession }))
        if (value.createdMs + sessionMs <= nowMs) tx.writes.push(Sessions.delete(key))
      tx.writes.push(Sessions.put([hash], { userId, createdMs: nowMs, seenMs: nowMs }))
      const row = tx.get("users", userId)
      if (row !== undefined) tx.update("users", row, { last_login_at: nowMs })
    })
    await Effect.runPromise(opened)
    return session
  }

  private hash(session: string): string {
    return this.secrets.hash(session, "store session")
  }

  /** Returns the member who is signed in by a session, or undefined. */
  session(secret: string): Member | undefined {
    const hash = this.hash(secret)
    const found = Sessions.get(this.store, [hash])
    const nowMs = this.engine.clock()
    if (found === undefined || found.createdMs + sessionMs <= nowMs || found.seenMs + idleMs <= nowMs)
      return undefined
    if (found.seenMs + seenEveryMs <= nowMs)
      this.store.commit([Sessions.put([hash], { ...found, seenMs: nowMs }, "present")], () => {})
    return this.member(found.userId)
  }

  async signOut(secret: string): Promise<void> {
    await committed(this.store, [Sessions.delete([this.hash(secret)])])
  }

  /** The token of the session's forms. It is bound to the session, so it need not be stored. */
  csrf(secret: string): string {
    return this.secrets.hash(secret, "store csrf")
  }

  names(): ReadonlyArray<string> {
    return this.engine
      .all("users")
      .map((row) => String(valueOf(this.engine.resource("users"), row, "username")))
  }
}
