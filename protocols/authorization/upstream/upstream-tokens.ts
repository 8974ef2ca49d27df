/** The answer of an upstream's token endpoint, and how its credential is stored: sealed to its user and
 *  provider.
 *  Source: docs/spec/authorization.md, sections 12.4 and 12.7; RFC 6749 section 5. */
import type { AuthContext } from "../auth-context.ts"
import { FetchFault, isJson, type Fetched } from "./safe-fetch.ts"
import { isWireFault, parseObject, type Members } from "../wire.ts"
import type { BrokerGrant } from "../records.ts"

/** The credential of a broker grant. */
export interface Credential {
  readonly accessToken: string
  readonly refreshToken: string | undefined
  /** Expiry in epoch ms; undefined when the upstream did not say. */
  readonly expiresMs: number | undefined
  readonly tokenType: string
  readonly scope: string
}

export interface TokenAnswer {
  readonly credential: Credential
  /** Granted scopes; undefined when the answer names none, which means the requested ones. */
  readonly scopes: ReadonlyArray<string> | undefined
}

/** `refused` is the upstream's own error code. */
export interface TokenRefusal {
  readonly refused: string
}

export const isRefusal = (answer: object): answer is TokenRefusal => "refused" in answer

const tokenLengthMax = 65_536

const textIn = (members: Members, name: string): string | undefined => {
  const value = members[name]
  return typeof value === "string" && value !== "" ? value : undefined
}

/** True when the text can be sent in a header. */
const isToken = (value: string | undefined): value is string =>
  value !== undefined && value.length <= tokenLengthMax && !/[^\x21-\x7e]/.test(value)

/** Reads a token response. A 5xx, or anything that is no token response, is a fault of the upstream; an OAuth
 *  error is its refusal. */
export const readTokenAnswer = (
  fetched: Fetched | FetchFault,
  format: "standard" | "slack",
  nowMs: number,
  asked: ReadonlyArray<string> = []
): TokenAnswer | TokenRefusal | FetchFault => {
  if (fetched instanceof FetchFault) return fetched
  const body = fetched.status < 500 && isJson(fetched) ? parseObject(fetched.body) : undefined
  if (body === undefined || isWireFault(body)) return new FetchFault({ reason: "broken" })
  // Some upstreams answer 200 with an error in the body.
  const error = textIn(body, "error")
  if (fetched.status !== 200 || error !== undefined || (format === "slack" && body["ok"] !== true))
    return error === undefined ? new FetchFault({ reason: "broken" }) : { refused: error }
  const nested = format === "slack" ? body["authed_user"] : undefined
  const members =
    typeof nested === "object" && nested !== null && "access_token" in nested ? (nested as Members) : body
  const accessToken = textIn(members, "access_token")
  const refreshToken = textIn(members, "refresh_token")
  const scope = textIn(members, "scope")
  if (!isToken(accessToken) || (refreshToken !== undefined && refreshToken.length > tokenLengthMax))
    return new FetchFault({ reason: "broken" })
  const seconds = Number(members["expires_in"] ?? NaN)
  return {
    credential: {
      accessToken,
      refreshToken,
      expiresMs: Number.isFinite(seconds) && seconds > 0 ? nowMs + Math.floor(seconds) * 1_000 : undefined,
      tokenType: textIn(members, "token_type") ?? "Bearer",
      scope: scope ?? ""
    },
    // Several well-known upstreams separate scopes by commas. A scope that contains a comma itself can only
    // be one that was requested.
    scopes: scope?.split(asked.some((one) => one.includes(",")) ? / +/ : /[ ,]+/).filter((one) => one !== "")
  }
}

/** True when the upstream says that a refresh token is permanently invalid. */
export const isSpent = ({ refused }: TokenRefusal): boolean =>
  ["invalid_grant", "invalid_refresh_token", "token_revoked", "token_expired", "bad_refresh_token"].includes(
    refused
  )

const purpose = "broker-grant"

/** Owner of a credential. The reader supplies it and never takes it from the row, so that a row copied to
 *  another owner cannot be opened. */
export interface Entry {
  readonly userId: string
  readonly providerId: string
}

export const sealCredential = (
  seal: AuthContext["seal"],
  { userId, providerId }: Entry,
  credential: Credential
): Uint8Array => seal.seal(Buffer.from(JSON.stringify(credential)), purpose, `${userId}/${providerId}`)

/** Returns undefined when the grant is revoked, or its credential is sealed for another owner. */
export const openCredential = (
  seal: AuthContext["seal"],
  { userId, providerId }: Entry,
  { credential, revokedMs }: BrokerGrant
): Credential | undefined => {
  if (credential === null || revokedMs !== null) return undefined
  try {
    return JSON.parse(
      Buffer.from(seal.open(credential, purpose, `${userId}/${providerId}`)).toString("utf8")
    ) as Credential
  } catch {
    return undefined
  }
}
