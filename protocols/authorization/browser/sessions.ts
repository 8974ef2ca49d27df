/** Browser sessions: a session row is stored under the hash of its cookie, and CSRF values bind a form to the
 *  session.
 *  Source: docs/spec/authorization.md, section 7.5, "Session cookie". */
import { createHash } from "node:crypto"
import { equalSecrets } from "../../../storage/seal.ts"
import type { Request, Header } from "../../../runtime/http.ts"
import type { Write } from "../../../storage/store.ts"
import { hashOf } from "../auth-context.ts"
import type { AuthContext } from "../auth-context.ts"
import { userIs } from "../token/liveness.ts"
import { Sessions as SessionRows, Users, type Session, type User } from "../records.ts"

/** What a login form is for: an authorization request, or a page of ours. */
export interface LoginForm {
  readonly req: string
  readonly next: string
}

export interface BegunSession {
  readonly sessionHash: string
  readonly cookie: Header
  readonly rows: ReadonlyArray<Write>
}

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

  /** Signs a user in. A browser in which this very user is signed in already keeps its session, renewed, so that
   *  the forms in its other tabs stay good; otherwise the session has a new id, so that an id planted before the
   *  login is worthless. The user's row is read here, in the turn of the commit, because another sign-in may have
   *  changed it since the caller read it. */
  begin(user: User, method: Session["method"], request: Request): BegunSession {
    const { books, settings, newToken, nowMs } = this.authority
    const before = this.of(request)
    const isSame = before?.user.id === user.id
    const value = isSame ? this.cookie(request, this.cookieName)! : newToken()
    const sessionHash = hashOf(this.authority, value, "session")
    const atMs = nowMs()
    const expiresMs = atMs + settings.session.maxAgeMs
    const now = books.get(Users, [user.id]) ?? user
    const session: Session = {
      userId: user.id,
      authMs: atMs,
      method,
      epoch: now.epoch,
      ip: request.client,
      createdMs: isSame ? before.session.createdMs : atMs,
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
        ...books.expiring(SessionRows, [sessionHash], session, expiresMs, isSame ? undefined : "absent"),
        Users.put([user.id], { ...now, lastLoginMs: atMs }, Users.unchanged(now))
      ]
    }
  }

  end(sessionHash: string): { readonly cookie: Header; readonly rows: ReadonlyArray<Write> } {
    return {
      cookie: this.setCookie(this.cookieName, "", 0, this.authority.settings.session.sameSite),
      rows: [SessionRows.delete([sessionHash])]
    }
  }

  /** Returns the nonce of a login form, and the cookie that binds it to the browser for another while. Each form
   *  has a cookie of its own, because a browser may open several tabs at once. */
  before(request: Request, form: LoginForm): { readonly nonce: string; readonly cookie: Header } {
    const name = this.preNameOf(form)
    const nonce = this.cookie(request, name) ?? this.authority.newToken()
    return { nonce, cookie: this.setCookie(name, nonce, preMaxAgeSeconds, "lax") }
  }

  /** Returns the nonce of the browser's login form, also of one that a build with one cookie for all had shown. */
  nonceOf(request: Request, form: LoginForm): string | undefined {
    return this.cookie(request, this.preNameOf(form)) ?? this.cookie(request, this.preName)
  }

  /** Takes the cookie of a login form away again. */
  after(form: LoginForm): Header {
    return this.setCookie(this.preNameOf(form), "", 0, "lax")
  }

  private preNameOf({ req, next }: LoginForm): string {
    if (req === "" && next === "") return this.preName
    const hash = createHash("sha256").update(`${req}\0${next}`).digest("base64url")
    return `${this.preName}_${hash.slice(0, 12)}`
  }

  csrf(purpose: string, ...bound: ReadonlyArray<string>): string {
    return this.authority.seal.hash([this.csrfKey, purpose, ...bound].join("\0"), "authorization csrf")
  }

  isCsrf(presented: string | undefined, purpose: string, ...bound: ReadonlyArray<string>): boolean {
    return presented !== undefined && equalSecrets(presented, this.csrf(purpose, ...bound))
  }
}
