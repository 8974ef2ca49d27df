/** A user who has allowed a client a resource, with the grants of the token endpoint called directly: no
 *  page, no password, no socket's turn. */
import { Effect } from "effect"
import { allowing } from "../../../../../protocols/authorization/consents.ts"
import { hashOf } from "../../../../../protocols/authorization/auth-context.ts"
import { effectOf } from "../../../../../runtime/http.ts"
import { isProblem, wordingOf, type Problem } from "../../../../../protocols/authorization/problems.ts"
import {
  Clients,
  Codes,
  type Client,
  type Code,
  type ConsentGrant,
  type Resource,
  type User
} from "../../../../../protocols/authorization/records.ts"
import type { Body, Grant, GrantCall } from "../../../../../protocols/authorization/token/grants/grant.ts"
import { readPairs, type Form } from "../../../../../protocols/authorization/wire.ts"
import { callback, pkce, World, type WorldOptions } from "../../world.ts"

export const verifier = "v".repeat(43)

export class Granted {
  readonly world: World
  readonly resource: Resource
  readonly client: Client
  readonly user: User
  readonly consent: ConsentGrant

  private constructor(
    world: World,
    { resource, client, user, consent }: Pick<Granted, "resource" | "client" | "user" | "consent">
  ) {
    this.world = world
    this.resource = resource
    this.client = client
    this.user = user
    this.consent = consent
  }

  static async open(options: WorldOptions = {}, client: Partial<Client> = {}): Promise<Granted> {
    const world = await World.make(options)
    const { services } = world.open
    const resource = await world.resource({ slug: "files" })
    const registered = await world.client(client)
    const user = await world.user()
    const { consent, rows } = allowing(services, user.id, registered, resource.id, [
      "files:read",
      "files:write"
    ])
    await services.books.write(rows)
    return new Granted(world, { resource, client: registered, user, consent })
  }

  get services() {
    return this.world.open.services
  }

  /** The key of a code's row. */
  codeKey(code: string): string {
    return hashOf(this.services, code, "code")
  }

  codeRow(code: string): Code {
    return Codes.get(this.world.store, [this.codeKey(code)])!
  }

  async code(code: string, fields: Partial<Code> = {}): Promise<string> {
    const { nowMs } = this.world
    const row: Code = {
      clientId: this.client.clientId,
      clientIssuedMs: this.client.issuedMs,
      redirectUri: callback,
      codeChallenge: pkce(verifier).challenge,
      scopes: ["files:read"],
      resourceId: this.resource.id,
      userId: this.user.id,
      userEpoch: this.user.epoch,
      consentId: this.consent.id,
      jkt: null,
      authMs: nowMs,
      issuedMs: nowMs,
      expiresMs: nowMs + 60_000,
      usedMs: null,
      familyId: null,
      jti: null,
      failedAttempts: 0,
      ...fields
    }
    await this.services.books.write([Codes.put([this.codeKey(code)], row)])
    return code
  }

  call(form: Record<string, string>, client: Client = this.client): GrantCall {
    return {
      services: this.services,
      form: readPairs(new URLSearchParams(form).toString()) as Form,
      client: this.services.books.get(Clients, [client.clientId])!,
      jkt: undefined,
      ip: "192.0.2.7",
      traceId: "0".repeat(32)
    }
  }

  /** The body of a success, or the error code of a refusal. */
  async ask(grant: Grant, form: Record<string, string>, client?: Client): Promise<Body | string> {
    const answer = await Effect.runPromise(effectOf<Body | Problem>(grant(this.call(form, client))))
    return isProblem(answer) ? wordingOf(answer).error : answer
  }

  codeForm(code: string): Record<string, string> {
    return { code, redirect_uri: callback, code_verifier: verifier }
  }
}
