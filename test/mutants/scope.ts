/** Faults of what a caller may do: OAuth scopes, scopes and areas of the store, scopes of translation keys. */
import type { Mutant } from "./mutant.ts"

const access = ["test/protocols/store/access/access.test.ts"]

export const scope: ReadonlyArray<Mutant> = [
  {
    id: "more-than-granted",
    file: "protocols/authorization/token/grants/grant.ts",
    find: "(scope) => !granted.includes(scope) || (client",
    replace: "(scope) => (client",
    why: "a refresh asks for scopes that the user never granted, and gets them",
    tests: ["test/protocols/authorization/token/grants/grant.test.ts"]
  },
  {
    id: "more-than-the-client-has",
    file: "protocols/authorization/token/grants/grant.ts",
    find: "      (client.scopes.length === 0 || client.scopes.includes(scope)) && catalogHas(services, resource, scope)",
    replace: "      catalogHas(services, resource, scope)",
    why: "scopes taken from a client stay in its tokens for ever",
    tests: ["test/protocols/authorization/token/grants/grant.test.ts"]
  },
  {
    id: "machine-client",
    file: "protocols/authorization/token/grants/client-credentials.ts",
    find: "(scope) => !client.scopes.includes(scope) || catalog",
    replace: "(scope) => catalog",
    why: "a machine client names its own rights",
    tests: ["test/protocols/authorization/token/grants/client-credentials.test.ts"]
  },
  {
    id: "exchange-widens",
    file: "protocols/authorization/token/grants/token-exchange.ts",
    find: "(scope) => !held.includes(scope) || catalog",
    replace: "(scope) => catalog",
    why: "an exchange yields scopes that its subject token lacks",
    tests: ["test/protocols/authorization/token/grants/token-exchange.test.ts"]
  },
  {
    id: "introspection-by-anybody",
    file: "protocols/authorization/token/introspect.ts",
    find: "?.runtimeClients.includes(clientId) === true)",
    replace: " !== undefined)",
    why: "any confidential client reads whose token it has found",
    tests: ["test/protocols/authorization/token/introspect.test.ts"]
  },
  {
    id: "second-scope",
    file: "protocols/store/access/guard.ts",
    find: "if (need.also !== undefined && !principal.scopes.has(need.also))",
    replace: "if (need.also !== undefined && !principal.scopes.has(need.scopes[0]!))",
    why: "an import, or decrypted data, needs no scope of its own",
    tests: access
  },
  {
    id: "writes-with-read-scopes",
    file: "protocols/store/access/scopes.ts",
    find: "export const writeNeed = (subject: Subject, area: Area): Need => ({ scopes: [subject], area })",
    replace: "export const writeNeed = (subject: Subject, area: Area): Need => readNeed(subject, area)",
    why: "a token that may read the catalog changes prices",
    tests: access
  },
  {
    id: "area-of-a-token-user",
    file: "protocols/store/access/guard.ts",
    find: "principal.member === undefined || principal.member.areas.has(need.area)",
    replace: `principal.kind !== "session" || principal.member!.areas.has(need.area)`,
    why: "an app acts for a user in areas that the user does not have",
    tests: access
  },
  {
    id: "area-of-a-page",
    file: "protocols/store/console/gate.ts",
    find: "  area === undefined || member.areas.has(area)",
    replace: "  area === undefined || member.areas.size > 0",
    why: "every member of the staff sees every page of the console",
    tests: ["test/protocols/store/console/console.test.ts"]
  },
  {
    id: "session-writes",
    file: "protocols/store/access/guard.ts",
    find: ` || (request.method !== "GET" && request.method !== "HEAD")) return undefined`,
    replace: ") return undefined",
    why: "the cookie of the console alone changes data through the API",
    tests: access
  },
  {
    id: "decrypt-in-an-admin-token",
    file: "protocols/store/access/apps.ts",
    find: `  if (scopes.includes("decrypt")) faults.push(textFault("scopes", "of an admin token cannot hold decrypt"))\n`,
    replace: "",
    why: "a token without a user reads encrypted data, and no audit names who",
    tests: ["test/protocols/store/access/apps.test.ts"]
  },
  {
    id: "key-with-scopes",
    file: "protocols/translation/account/guard.ts",
    find: "(scope === undefined || !scopes.includes(scope))",
    replace: "(scope !== undefined && !scopes.includes(scope))",
    why: "a restricted key uses every endpoint that has no scope",
    tests: ["test/protocols/translation/account/guard.test.ts"]
  },
  {
    id: "key-of-another-role",
    file: "protocols/translation/account/guard.ts",
    find: "using === undefined || using.key.role !== role",
    replace: "using === undefined",
    why: "a developer's key administers the account",
    tests: [
      "test/protocols/translation/account/guard.test.ts",
      "test/protocols/translation/account/admin.test.ts"
    ]
  }
]
