/** Durable rows of the authorization server. Times are epoch milliseconds. A secret that only has to be
 *  recognised is stored as a keyed hash, and one that has to be read again is sealed. Whether a token is live
 *  is never copied into its descendants: `liveness.ts` reads up the chain, so that revoking writes one row.
 *  Source: docs/spec/authorization.md, section 2. */
import { Schema } from "effect"
import { table } from "../../storage/store.ts"

const text = Schema.String
const texts = Schema.Array(Schema.String)
const ms = Schema.Int
const none = Schema.NullOr
const stamped = { createdMs: ms, updatedMs: ms }

export const grantTypes = [
  "authorization_code",
  "refresh_token",
  "client_credentials",
  "urn:ietf:params:oauth:grant-type:token-exchange",
  "urn:ietf:params:oauth:grant-type:jwt-bearer"
] as const

export type GrantType = (typeof grantTypes)[number]
export const exchangeGrant = grantTypes[3]
export const bearerGrant = grantTypes[4]
export const authMethods = ["none", "client_secret_basic", "client_secret_post"] as const

export const Client = Schema.Struct({
  clientId: text,
  /** HMAC of the secret under the pepper. */
  secretHash: none(text),
  previousHash: none(text),
  previousUntilMs: ms,
  redirectUris: texts,
  clientName: text,
  authMethod: Schema.Literals(authMethods),
  grantTypes: texts,
  responseTypes: texts,
  applicationType: Schema.Literals(["web", "native"]),
  /** Upper limit on the client's scopes; empty when there is no limit. */
  scopes: texts,
  agent: Schema.Boolean,
  agentDescription: text,
  status: Schema.Literals(["active", "suspended", "revoked"]),
  source: Schema.Literals(["admin", "dcr", "cimd"]),
  documentUrl: text,
  /** Distinguishes the client from a later one with the same id. */
  issuedMs: ms,
  updatedMs: ms,
  /** True once a code was issued to the client. */
  used: Schema.Boolean
})

export type Client = typeof Client.Type

export const CatalogScope = Schema.Struct({ name: text, description: text, upstream: texts })

export const Resource = Schema.Struct({
  id: text,
  slug: text,
  uri: text,
  backend: Schema.Literals(["mint", "broker"]),
  providerId: text,
  displayName: text,
  scopes: Schema.Array(CatalogScope),
  exchangeClients: texts,
  runtimeClients: texts,
  returnUrls: texts,
  ...stamped
})

export type Resource = typeof Resource.Type

export const User = Schema.Struct({
  id: text,
  email: text,
  name: text,
  role: Schema.Literals(["user", "admin"]),
  passwordHash: none(text),
  federated: none(Schema.Struct({ issuer: text, subject: text })),
  status: Schema.Literals(["active", "disabled"]),
  /** Raising it invalidates every session, code and token issued before. */
  epoch: Schema.Int,
  lastLoginMs: none(ms),
  ...stamped
})

export type User = typeof User.Type

export const Session = Schema.Struct({
  userId: text,
  authMs: ms,
  method: Schema.Literals(["pwd", "fed"]),
  epoch: Schema.Int,
  ip: text,
  createdMs: ms,
  expiresMs: ms
})

export type Session = typeof Session.Type

export const AuthorizationRequest = Schema.Struct({
  clientId: text,
  redirectUri: text,
  codeChallenge: text,
  scopes: texts,
  resourceId: text,
  state: none(text),
  loginHint: text,
  prompt: texts,
  maxAgeSeconds: none(Schema.Int),
  jkt: none(text),
  userId: none(text),
  sessionHash: none(text),
  phase: Schema.Literals(["login", "consent", "done"]),
  createdMs: ms,
  expiresMs: ms
})

export type AuthorizationRequest = typeof AuthorizationRequest.Type

export const Code = Schema.Struct({
  clientId: text,
  clientIssuedMs: ms,
  redirectUri: text,
  codeChallenge: text,
  scopes: texts,
  resourceId: text,
  userId: text,
  userEpoch: Schema.Int,
  consentId: text,
  jkt: none(text),
  authMs: ms,
  issuedMs: ms,
  expiresMs: ms,
  usedMs: none(ms),
  familyId: none(text),
  jti: none(text),
  failedAttempts: Schema.Int
})

export type Code = typeof Code.Type

/** One row for every token that was issued, both our own and the vended tokens of an upstream. Its id is its
 *  `jti`, a UUIDv7, so the table is in order of time. */
export const Issuance = Schema.Struct({
  jti: text,
  grantType: text,
  sub: text,
  userId: text,
  userEpoch: Schema.Int,
  clientId: text,
  clientIssuedMs: ms,
  consentClientId: text,
  consentId: text,
  resourceId: text,
  audience: text,
  scopes: texts,
  backend: Schema.Literals(["mint", "broker"]),
  parentJti: text,
  /** Number of exchanges between this token and the original one, which has 0. */
  generation: Schema.Int,
  familyId: text,
  idpId: text,
  jkt: text,
  agentId: text,
  agentChain: texts,
  revocable: Schema.Boolean,
  issuedMs: ms,
  expiresMs: ms,
  revokedMs: none(ms),
  revokedReason: text
})

export type Issuance = typeof Issuance.Type

export const ConsentGrant = Schema.Struct({
  id: text,
  userId: text,
  clientId: text,
  clientIssuedMs: ms,
  resourceId: text,
  scopes: texts,
  revokedMs: none(ms),
  ...stamped
})

export type ConsentGrant = typeof ConsentGrant.Type

export const Provider = Schema.Struct({
  id: text,
  slug: text,
  displayName: text,
  protocol: Schema.Literals(["oauth", "api_key", "service_account"]),
  /** Configuration without its secret members. */
  config: Schema.Record(text, Schema.Unknown),
  sealedSecret: none(Schema.Uint8Array),
  ...stamped
})

export type Provider = typeof Provider.Type

export const BrokerGrant = Schema.Struct({
  id: text,
  userId: text,
  providerId: text,
  scopesGranted: texts,
  /** Sealed JSON; the address `userId/providerId` is part of the seal. */
  credential: none(Schema.Uint8Array),
  version: Schema.Int,
  revokedMs: none(ms),
  ...stamped
})

export type BrokerGrant = typeof BrokerGrant.Type

export const Idp = Schema.Struct({
  id: text,
  name: text,
  issuer: text,
  jwksUri: text,
  audience: text,
  enabled: Schema.Boolean,
  ...stamped
})

export type Idp = typeof Idp.Type

export const Policy = Schema.Struct({
  id: text,
  name: text,
  idpId: text,
  clientIds: texts,
  scopes: texts,
  resources: texts,
  enabled: Schema.Boolean,
  ...stamped
})

export type Policy = typeof Policy.Type

export const SubjectMapping = Schema.Struct({
  id: text,
  idpId: text,
  idpSubject: text,
  userId: text,
  ...stamped
})

export type SubjectMapping = typeof SubjectMapping.Type

export const Prompt = Schema.Struct({
  userId: text,
  clientId: text,
  resourceId: text,
  scopes: texts,
  createdMs: ms,
  expiresMs: ms
})

export type Prompt = typeof Prompt.Type

export const SigningKey = Schema.Struct({
  kid: text,
  algorithm: Schema.Literals(["ES256", "RS256"]),
  /** Sealed PKCS#8; null once retired. */
  privateKey: none(Schema.Uint8Array),
  publicJwk: Schema.Record(text, text),
  status: Schema.Literals(["pending", "active", "retiring", "retired"]),
  createdMs: ms,
  activatedMs: none(ms),
  retiredMs: none(ms)
})

export type SigningKey = typeof SigningKey.Type

export const AuditEvent = Schema.Struct({
  id: text,
  action: text,
  actorId: text,
  clientId: text,
  ip: text,
  detail: text,
  traceId: text,
  createdMs: ms
})

export type AuditEvent = typeof AuditEvent.Type
const Id = Schema.Struct({ id: text })

const authorizationTable = <A>(name: string, schema: Schema.Codec<A, any>) =>
  table(`authorization-${name}`, schema)

/** Key: [clientId]. */
export const Clients = authorizationTable("clients", Client)

/** Key: [id]. */
export const Resources = authorizationTable("resources", Resource)

/** Key: [id]. */
export const Users = authorizationTable("users", User)

/** Key: [lower-case e-mail]. */
export const UserEmails = authorizationTable("user-emails", Id)

/** Key: [issuer, subject]. */
export const UserFederations = authorizationTable("user-federations", Id)

/** Key: [hash of the cookie]. */
export const Sessions = authorizationTable("sessions", Session)

/** Key: [hash of the request id]. */
export const Requests = authorizationTable("requests", AuthorizationRequest)

/** Key: [hash of the code]. */
export const Codes = authorizationTable("codes", Code)

/** Key: [jti]. */
export const Issuances = authorizationTable("issuances", Issuance)

/** Key: [id]. */
export const Consents = authorizationTable("consents", ConsentGrant)

/** Key: [userId, clientId, resourceId]; the value is the id of the live consent. */
export const ConsentKeys = authorizationTable("consent-keys", Id)

/** Key: [id]. */
export const Providers = authorizationTable("providers", Provider)

/** Key: [userId, providerId]. Only the newest grant has a row; a new one replaces its predecessor and that
 *  credential. */
export const BrokerGrants = authorizationTable("broker-grants", BrokerGrant)

/** Key: [id]. */
export const Idps = authorizationTable("idps", Idp)

/** Key: [id]. */
export const Policies = authorizationTable("policies", Policy)

/** Key: [id]. */
export const Mappings = authorizationTable("mappings", SubjectMapping)

/** Key: [idpId, subject]. */
export const MappingKeys = authorizationTable("mapping-keys", Id)

/** Key: [idpId, jti]. */
export const AssertionIds = authorizationTable("assertion-ids", Schema.Struct({ expiresMs: ms }))

/** Key: [hash of thumbprint and jti]. */
export const ProofIds = authorizationTable("proof-ids", Schema.Struct({ expiresMs: ms }))

/** Key: [userId, clientId, resourceId]. */
export const Prompts = authorizationTable("prompts", Prompt)

/** Key: [id], a UUIDv7. */
export const AuditEvents = authorizationTable("audit", AuditEvent)

/** Key: [kid]. */
export const SigningKeys = authorizationTable("signing-keys", SigningKey)

/** Key: [name of the setting]. */
export const SettingRows = authorizationTable("settings", Schema.Struct({ value: Schema.Unknown }))

/** Key: [kind and hash of a slug, URI or issuer]; the value is the id of the row that has the name. */
export const UniqueNames = authorizationTable("unique-names", Id)

/** Key: [hash of path and Idempotency-Key]. */
export const Idempotency = authorizationTable(
  "idempotency",
  Schema.Struct({ bodyHash: text, status: Schema.Int, body: text, expiresMs: ms })
)

/** Key: [hash of the state]; a row means that the state was used. */
export const UsedStates = authorizationTable("used-states", Schema.Struct({ expiresMs: ms }))

/** Key: [atMs, table, ...key]; the sweeper removes that row from `atMs` on. */
export const Expiries = authorizationTable("expiries", Schema.Struct({}))
