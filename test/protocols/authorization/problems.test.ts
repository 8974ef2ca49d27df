/** Every refusal, worded: its status, code and headers, whatever it is written into. Source:
 *  docs/spec/authorization.md, section 3.3. */
import { describe, expect, it } from "vitest"
import {
  badGateway,
  consentRequired,
  isProblem,
  problemOf,
  slowDown,
  unavailable,
  useDpopNonce,
  wordingOf,
  type PlainCode,
  type Problem
} from "../../../protocols/authorization/problems.ts"

const plainStatuses: Readonly<Record<PlainCode, number>> = {
  invalid_request: 400,
  invalid_client: 401,
  invalid_client_metadata: 400,
  invalid_redirect_uri: 400,
  invalid_grant: 400,
  invalid_scope: 400,
  unauthorized_client: 400,
  unsupported_grant_type: 400,
  invalid_target: 400,
  invalid_dpop_proof: 400,
  access_denied: 403,
  server_error: 500,
  not_found: 404,
  conflict: 409,
  invalid_admin_key: 401,
  unsupported_response_type: 400,
  login_required: 400,
  interaction_required: 400,
  request_not_supported: 400,
  request_uri_not_supported: 400
}

const plain = { headers: [], members: {} }
const remedy = { consentUrl: "https://id.example/authorize", cause: "consent_missing" }

const worded: ReadonlyArray<readonly [name: string, problem: Problem, wording: object]> = [
  ...(Object.keys(plainStatuses) as ReadonlyArray<PlainCode>).map(
    (code) =>
      [
        code,
        problemOf(code, "why"),
        { ...plain, error: code, status: plainStatuses[code], description: "why" }
      ] as const
  ),
  [
    "a missing consent with its remedy",
    consentRequired("why", remedy),
    {
      error: "consent_required",
      status: 400,
      description: "why",
      headers: [],
      members: { consent_url: remedy.consentUrl, cause: remedy.cause }
    }
  ],
  [
    "a missing consent in a redirect",
    consentRequired("why"),
    { ...plain, error: "consent_required", status: 400, description: "why" }
  ],
  [
    "too many requests",
    slowDown(1_001),
    {
      error: "slow_down",
      status: 429,
      description: "too many requests",
      headers: [["Retry-After", "2"]],
      members: {}
    }
  ],
  [
    "a missing nonce",
    useDpopNonce("n-1"),
    {
      error: "use_dpop_nonce",
      status: 400,
      description: "a nonce of this server is wanted",
      headers: [["DPoP-Nonce", "n-1"]],
      members: {}
    }
  ],
  [
    "a store that cannot write now",
    unavailable(),
    {
      error: "server_error",
      status: 503,
      description: "temporarily unavailable",
      headers: [["Retry-After", "1"]],
      members: {}
    }
  ],
  [
    "another server that failed",
    badGateway("why"),
    { ...plain, error: "server_error", status: 502, description: "why" }
  ],
  [
    "a transport that refused",
    { _tag: "request_rejected", description: "method not allowed", status: 405, allow: "POST" },
    {
      error: "invalid_request",
      status: 405,
      description: "method not allowed",
      headers: [["Allow", "POST"]],
      members: {}
    }
  ]
]

describe("refusals", () => {
  it.each(worded)("%s", (_, problem, wording) => {
    expect(wordingOf(problem)).toEqual(wording)
    expect(isProblem(problem)).toBe(true)
  })
  it("a fresh nonce stands behind the headers of any refusal", () => {
    expect(wordingOf({ ...slowDown(1), dpopNonce: "n-2" }).headers).toEqual([
      ["Retry-After", "1"],
      ["DPoP-Nonce", "n-2"]
    ])
  })
  it("a description is printable ASCII without quotes, 300 characters at most", () => {
    expect(problemOf("invalid_grant", 'a"b\\c\u00e9\n')).toEqual({
      _tag: "invalid_grant",
      description: "a?b?c??"
    })
    expect(problemOf("invalid_grant", "x".repeat(301)).description).toHaveLength(300)
  })
  it.each([undefined, null, "invalid_grant", { status: 200 }, { _tag: "Active" }])("%j is none", (value) => {
    expect(isProblem(value)).toBe(false)
  })
})
