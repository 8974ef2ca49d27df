/** Families of refresh tokens that rotate, are revoked and reused, clients that register, tokens of clients that
 *  are revoked. Source: docs/spec/authorization.md, section 19.3. */
import { createHash, randomBytes } from "node:crypto"
import { oneOf, random, sampleOf, type Book, type Violations } from "./book.ts"
import type { Caller, Reply } from "./caller.ts"
import { Browser } from "../shipped/browser.ts"

export interface AuthorizationAccounts {
  /** Basic, of the client of the families. */
  readonly client: string
  readonly clientId: string
  /** Basic, of a client that acts for itself. */
  readonly service: string
  /** Of a user who is signed in and has consented. */
  readonly browser: Browser
  readonly resource: string
  readonly callback: string
}

interface Family {
  readonly tokens: Array<string>
  /** `doubtful`: an answer was lost, so that its last token may have been used. */
  state: "alive" | "doubtful" | "dead"
  isBusy: boolean
}

interface Token {
  readonly text: string
  /** `perhaps`: the answer to its revocation was lost. */
  revoked: "no" | "yes" | "perhaps"
}

const familiesMax = 40
const tokensMax = 400
const checked = 8

const formOf = (fields: Readonly<Record<string, string>>): URLSearchParams => new URLSearchParams(fields)

export class AuthorizationBook implements Book {
  readonly name = "authorization"
  promises = 0
  readonly acts: ReadonlyArray<() => Promise<void>>
  private readonly families: Array<Family> = []
  private readonly tokens: Array<Token> = []
  private readonly clients: Array<string> = []
  private readonly caller: Caller
  private readonly violations: Violations
  private readonly accounts: AuthorizationAccounts

  constructor(caller: Caller, violations: Violations, accounts: AuthorizationAccounts) {
    this.caller = caller
    this.violations = violations
    this.accounts = accounts
    this.acts = [
      () => this.begin(),
      () => this.refresh(),
      () => this.refresh(),
      () => this.end(),
      () => this.issue(),
      () => this.register()
    ]
  }

  private post(path: string, fields: Readonly<Record<string, string>>, client = this.accounts.client) {
    return this.caller.call(path, { headers: { Authorization: client }, body: formOf(fields) })
  }

  /** A code becomes a family; a code that is redeemed twice must not become two. */
  private async begin(): Promise<void> {
    await this.rest()
    if (this.alive().length >= familiesMax) return
    const { browser, clientId, callback, resource } = this.accounts
    const verifier = randomBytes(32).toString("base64url")
    const query = new URLSearchParams({
      client_id: clientId,
      redirect_uri: callback,
      response_type: "code",
      scope: "demo:read",
      resource,
      state: "s",
      code_challenge: createHash("sha256").update(verifier).digest("base64url"),
      code_challenge_method: "S256"
    })
    const page = await browser.open(`/oauth/authorize?${query}`).catch(() => undefined)
    if (page === undefined || !page.location.startsWith(callback)) return
    const redeem = (): Promise<Reply | undefined> =>
      this.post("/oauth/token", {
        grant_type: "authorization_code",
        code: new URL(page.location).searchParams.get("code")!,
        redirect_uri: callback,
        code_verifier: verifier
      })
    const isTwice = random(4) === 0
    const replies = await Promise.all(isTwice ? [redeem(), redeem()] : [redeem()])
    const won = replies.filter((reply) => reply?.status === 200)
    this.violations.unless(won.length < 2, () => "authorization: one code was redeemed twice")
    if (isTwice || won.length === 0) return
    this.promises++
    this.families.push({ tokens: [won[0]!.body.refresh_token], state: "alive", isBusy: false })
  }

  private async refresh(): Promise<void> {
    const family = oneOf(this.alive())
    if (family === undefined) return this.rest()
    await this.rotate(family)
  }

  private async rotate(family: Family): Promise<void> {
    family.isBusy = true
    const reply = await this.post("/oauth/token", {
      grant_type: "refresh_token",
      refresh_token: family.tokens.at(-1)!
    })
    family.isBusy = false
    if (reply === undefined) family.state = "doubtful"
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(
      reply.status === 200,
      () => `authorization: a current refresh token was refused: ${reply.text}`
    )
    if (reply.status !== 200) {
      family.state = "dead"
      return
    }
    family.tokens.push(reply.body.refresh_token)
    this.promises++
  }

  /** Reuse of an old token, or a revocation: either ends the family. */
  private async end(): Promise<void> {
    await this.rest()
    const old = this.alive().filter(({ tokens }) => tokens.length > 1)
    if (old.length < familiesMax / 4) return
    const family = oneOf(old)!
    family.isBusy = true
    const isReuse = random(2) === 0
    const reply = isReuse
      ? await this.post("/oauth/token", { grant_type: "refresh_token", refresh_token: family.tokens[0]! })
      : await this.post("/oauth/revoke", { token: family.tokens.at(-1)! })
    family.isBusy = false
    if (reply === undefined) family.state = "doubtful"
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(
      reply.status === (isReuse ? 400 : 200),
      () => `authorization: ${isReuse ? "a used token" : "a revocation"} was answered ${reply.text}`
    )
    family.state = "dead"
    this.promises++
  }

  private async issue(): Promise<void> {
    const { service } = this.accounts
    const form = { grant_type: "client_credentials", scope: "demo:read" }
    const reply = await this.post("/oauth/token", form, service)
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(reply.status === 200, () => `authorization: no token: ${reply.text}`)
    const token: Token = { text: reply.body.access_token, revoked: "no" }
    this.tokens.push(token)
    this.promises++
    if (random(2) === 0) return
    token.revoked = "perhaps"
    const revoked = await this.post("/oauth/revoke", { token: token.text }, service)
    if (revoked?.status === 200) token.revoked = "yes"
  }

  private async register(): Promise<void> {
    await this.rest()
    const reply = await this.caller.call("/oauth/register", {
      body: {
        client_name: `storm ${random(1e9)}`,
        redirect_uris: [this.accounts.callback],
        token_endpoint_auth_method: "client_secret_basic",
        grant_types: ["authorization_code"],
        response_types: ["code"]
      }
    })
    if (reply?.status !== 201) return
    const { client_id, client_secret } = reply.body
    this.clients.push(`Basic ${Buffer.from(`${client_id}:${client_secret}`).toString("base64")}`)
    this.promises++
  }

  private alive(): ReadonlyArray<Family> {
    return this.families.filter(({ state, isBusy }) => state === "alive" && !isBusy)
  }

  private rest(): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, 20 + random(100))
    })
  }

  async check(isWhole: boolean): Promise<void> {
    const answer = (path: string, fields: Readonly<Record<string, string>>, client = this.accounts.client) =>
      this.caller.answer(path, { headers: { Authorization: client }, body: formOf(fields) })
    for (const family of sampleOf(this.of("dead"), checked, isWhole)) {
      const reply = await answer("/oauth/token", {
        grant_type: "refresh_token",
        refresh_token: family.tokens.at(-1)!
      })
      this.violations.unless(
        reply.body?.error === "invalid_grant",
        () => `authorization: a family that ended goes on: ${reply.text}`
      )
    }
    for (const family of sampleOf(this.of("alive"), checked, isWhole)) await this.rotate(family)
    // The lost answer had used the token, and then the family ends by this; or it had not, and it goes on.
    for (const family of this.of("doubtful")) {
      const reply = await answer("/oauth/token", {
        grant_type: "refresh_token",
        refresh_token: family.tokens.at(-1)!
      })
      this.violations.unless(
        reply.status === 200 || reply.body?.error === "invalid_grant",
        () => `authorization: a token in doubt was answered ${reply.text}`
      )
      family.state = reply.status === 200 ? "alive" : "dead"
      if (reply.status === 200) family.tokens.push(reply.body.refresh_token)
    }
    for (const token of sampleOf(this.tokens, checked, isWhole)) {
      const { body } = await answer("/oauth/introspect", { token: token.text }, this.accounts.service)
      this.violations.unless(
        token.revoked === "perhaps" || body.active === (token.revoked === "no"),
        () => `authorization: a token whose revocation is "${token.revoked}" is ${JSON.stringify(body)}`
      )
      if (token.revoked === "perhaps") token.revoked = body.active === true ? "no" : "yes"
    }
    for (const client of sampleOf(this.clients, checked, isWhole)) {
      const reply = await answer("/oauth/introspect", { token: "x" }, client)
      this.violations.unless(
        reply.status === 200,
        () => `authorization: a client that registered is unknown: ${reply.text}`
      )
    }
    this.forget()
  }

  private of(wanted: Family["state"]): ReadonlyArray<Family> {
    return this.families.filter(({ state }) => state === wanted)
  }

  private forget(): void {
    this.tokens.splice(0, Math.max(0, this.tokens.length - tokensMax))
    this.clients.splice(0, Math.max(0, this.clients.length - tokensMax))
    const dead = this.of("dead")
    for (const family of dead.slice(0, -tokensMax)) this.families.splice(this.families.indexOf(family), 1)
  }
}
