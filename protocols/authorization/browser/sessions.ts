/** Browser sessions: a session row is stored under the hash of its cookie, and CSRF values bind a form to the
 *  session.
 *  Source: docs/spec/authorization.md, section 7.5, "Session cookie". */
import { equalSecrets } from "../../../storage/seal.ts"
import type { Request, Header } from "../../../runtime/http.ts"
import type { Write } from "../../../storage/store.ts"
import { hashOf } from "../auth-context.ts"
import type { AuthContext } from "../auth-context.ts"
import { userIs } from "../token/liveness.ts"
import { Sessions as SessionRows, Users, type Session, type User } from "../records.ts"

export interface SignedIn {
  readonly session: Session
  readonly user: User
  readonly sessionHash: string
}

const preMaxAgeSeconds = 600
const cookieToken = /^[A-Za-z0-9_-]{43}$/

export class BrowserSessions {
  private readonly authority: AuthContext
  private readonly cookieName: string
  private readonly preName: string
  private readonly csrfKey: string

  constructor(authority: AuthContext) {
    const { session } = authority.settings
    const prefix = session.secure ? "__Host-" : ""
    this.authority = authority
    this.cookieName = `${prefix}${session.cookieName}`
    this.preName = `${prefix}authserver_pre`
    this.csrfKey = authority.seal.hash(session.secret, "authorization session")
  }

  private cookie(request: Request, name: string): string | undefined {
    for (const pair of (request.headers.get("cookie") ?? "").split(/;\s*|,\s*/)) {
      const equals = pair.indexOf("=")
      if (pair.slice(0, equals) === name && cookieToken.test(pair.slice(equals + 1)))
        return pair.slice(equals + 1)
    }
    return undefined
  }

  private setCookie(name: string, value: string, maxAgeSeconds: number, sameSite: string): Header {
    return [
      "Set-Cookie",
      `${name}=${value}; Path=/; HttpOnly; SameSite=${sameSite[0]!.toUpperCase()}${sameSite.slice(1)}; Max-Age=${maxAgeSeconds}${this.authority.settings.session.secure ? "; Secure" : ""}`
    ]
  }

  of(request: Request): SignedIn | undefined {
    const presented = this.cookie(request, this.cookieName)
    if (presented === undefined) return undefined
    const sessionHash = hashOf(this.authority, presented, "session")
    const session = SessionRows.get(this.authority.books.store, [sessionHash])
    if (session === undefined || this.authority.nowMs() >= session.expiresMs) return undefined
    const user = userIs(this.authority, session.userId, session.epoch)
    return user === undefined ? undefined : { session, user, sessionHash }
  }

  /** Creates a session with a new id, so that an id planted before the login is worthless. */
  begin(
    user: User,
    method: Session["method"],
    ip: string
  ): { readonly sessionHash: string; readonly cookie: Header; readonly rows: ReadonlyArray<Write> } {
    const { books, settings, newToken, nowMs } = this.authority
    const value = newToken()
    const sessionHash = hashOf(this.authority, value, "session")
    const atMs = nowMs()
    const expiresMs = atMs + settings.session.maxAgeMs
    const session: Session = {
      userId: user.id,
      authMs: atMs,
      method,
      epoch: user.epoch,
      ip,
      createdMs: atMs,
      expiresMs
    }
    return {
      sessionHash,
      cookie: this.setCookie(
        this.cookieName,
        value,
        Math.floor(settings.session.maxAgeMs / 1_000),
        settings.session.sameSite
      ),
      rows: [
        ...books.expiring(SessionRows, [sessionHash], session, expiresMs, "absent"),
        Users.put([user.id], { ...user, lastLoginMs: atMs }, Users.unchanged(user))
      ]
    }
  }

  end(sessionHash: string): { readonly cookie: Header; readonly rows: ReadonlyArray<Write> } {
    return {
      cookie: this.setCookie(this.cookieName, "", 0, this.authority.settings.session.sameSite),
      rows: [SessionRows.delete([sessionHash])]
    }
  }

  /** Returns the pre-login nonce of a browser that is not signed in yet, and the cookie to set when it had
   *  none. */
  before(request: Request): { readonly nonce: string; readonly cookie: Header | undefined } {
    const existing = this.cookie(request, this.preName)
    if (existing !== undefined) return { nonce: existing, cookie: undefined }
    const nonce = this.authority.newToken()
    return { nonce, cookie: this.setCookie(this.preName, nonce, preMaxAgeSeconds, "lax") }
  }

  nonceOf(request: Request): string | undefined {
    return this.cookie(request, this.preName)
  }

  csrf(purpose: string, ...bound: ReadonlyArray<string>): string {
    return this.authority.seal.hash([this.csrfKey, purpose, ...bound].join("\0"), "authorization csrf")
  }

  isCsrf(presented: string | undefined, purpose: string, ...bound: ReadonlyArray<string>): boolean {
    return presented !== undefined && equalSecrets(presented, this.csrf(purpose, ...bound))
  }
}
