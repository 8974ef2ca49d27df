/** Durable rows of the authorization server. Times are epoch ms. What must be recognised is a keyed hash,
 *  what must be read again is sealed. Whether a token is live is never copied into its descendants:
 *  `liveness.ts` reads up the chain, so that revoking is one row.
 *  Source: authorization section 2. */
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
  /** HMAC under the pepper. */
  secretHash: none(text),
  previousHash: none(text),
  previousUntilMs: ms,
  redirectUris: texts,
  clientName: text,
  authMethod: Schema.Literals(authMethods),
  grantTypes: texts,
  responseTypes: texts,
  applicationType: Schema.Literals(["web", "native"]),
  /** The ceiling; empty: none set. */
  scopes: texts,
  agent: Schema.Boolean,
  agentDescription: text,
  status: Schema.Literals(["active", "suspended", "revoked"]),
  source: Schema.Literals(["admin", "dcr", "cimd"]),
  documentUrl: text,
  /** Tells a client from a later one of the same id. */
  issuedMs: ms,
  updatedMs: ms,
  /** A code was issued to it once. */
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
  /** What was given before it was raised (sessions, codes, tokens) is void. */
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

/** One for every token that was answered: our own, and vended ones of an upstream. Its id is its `jti`, a
 *  UUIDv7, so the table is in time order. */
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
  /** How many exchanges lie between this and a token that was none. */
  parentJti: text,
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
  /** Without its secret members. */
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
  /** Sealed JSON, at the address `userId/providerId`. */
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

/** [clientId] */
export const Clients = authorizationTable("clients", Client)

/** [id] */
export const Resources = authorizationTable("resources", Resource)

/** [id] */
export const Users = authorizationTable("users", User)

/** [lower-case e-mail] */
export const UserEmails = authorizationTable("user-emails", Id)

/** [issuer, subject] */
export const UserFederations = authorizationTable("user-federations", Id)

/** [hash] */
export const Sessions = authorizationTable("sessions", Session)

/** [hash] */
export const Requests = authorizationTable("requests", AuthorizationRequest)

/** [hash] */
export const Codes = authorizationTable("codes", Code)

/** [jti] */
export const Issuances = authorizationTable("issuances", Issuance)

/** [id] */
export const Consents = authorizationTable("consents", ConsentGrant)

/** [userId, clientId, resourceId] → the live grant */
export const ConsentKeys = authorizationTable("consent-keys", Id)

/** [id] */
export const Providers = authorizationTable("providers", Provider)

/** [userId, providerId]: the newest; an earlier one is gone with its credential */
export const BrokerGrants = authorizationTable("broker-grants", BrokerGrant)

/** [id] */
export const Idps = authorizationTable("idps", Idp)

/** [id] */
export const Policies = authorizationTable("policies", Policy)

/** [id] */
export const Mappings = authorizationTable("mappings", SubjectMapping)

/** [idpId, subject] */
export const MappingKeys = authorizationTable("mapping-keys", Id)

/** [idpId, jti] */
export const AssertionIds = authorizationTable("assertion-ids", Schema.Struct({ expiresMs: ms }))

/** [hash of key and jti] */
export const ProofIds = authorizationTable("proof-ids", Schema.Struct({ expiresMs: ms }))

/** [userId, clientId, resourceId] */
export const Prompts = authorizationTable("prompts", Prompt)

/** [id], a UUIDv7 */
export const AuditEvents = authorizationTable("audit", AuditEvent)

/** [kid] */
export const SigningKeys = authorizationTable("signing-keys", SigningKey)

/** [name] */
export const SettingRows = authorizationTable("settings", Schema.Struct({ value: Schema.Unknown }))

/** [unique name of the thing] → id: slugs, URIs, issuers */
export const UniqueNames = authorizationTable("unique-names", Id)

/** [hash of the Idempotency-Key and path] */
export const Idempotency = authorizationTable(
  "idempotency",
  Schema.Struct({ bodyHash: text, status: Schema.Int, body: text, expiresMs: ms })
)

/** [state hash] used once */
export const UsedStates = authorizationTable("used-states", Schema.Struct({ expiresMs: ms }))

/** [atMs, table, ...key]: what the sweeper removes */
export const Expiries = authorizationTable("expiries", Schema.Struct({}))
