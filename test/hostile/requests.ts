/** What the flood sends: every public route of the program with what its holder is permitted, and requests that
 *  must be refused. */
import type { Accounts } from "./preparation.ts"
import type { Ask } from "./wire.ts"

export interface Stream {
  readonly perSecond: number
  readonly next: () => Ask
}

const jsonType = "application/json"
const formType = "application/x-www-form-urlencoded"
const sources = 2 ** 16

const random = (below: number): number => Math.floor(Math.random() * below)

/** Names another source for the program's limits, through the proxy that it trusts. */
const fromAnywhere = (): Readonly<Record<string, string>> => {
  const source = random(sources)
  return { "X-Forwarded-For": `10.7.${source >> 8}.${source & 255}`, "X-Forwarded-Proto": "https" }
}

const uuid = "0b54b1a2-8a5c-4c53-9a1c-3f2f6d2f7f11"

/** One a line; `:` begins an id that nobody has. */
const translationRoutes = `
GET /healthz
POST /v2/translate
GET /v2/usage
GET /v2/languages
POST /v2/languages
GET /v2/glossary-language-pairs
GET /v3/languages?resource=voice
GET /v3/languages/resources
POST /v3/detect/language
POST /v2/write/correct
POST /v2/write/rephrase
GET /v2/admin/analytics
GET /v2/admin/analytics/custom-tags
GET /v2/admin/developer-keys
POST /v2/admin/developer-keys
PUT /v2/admin/developer-keys/deactivate
PUT /v2/admin/developer-keys/label
PUT /v2/admin/developer-keys/limits
GET /v2/document/:id
POST /v2/document
POST /v2/document/:id
GET /v2/document/:id/result
POST /v2/document/:id/result
GET /v2/glossaries
POST /v2/glossaries
GET /v2/glossaries/:id
GET /v2/glossaries/:id/entries
DELETE /v2/glossaries/:id
GET /v3/glossaries
POST /v3/glossaries
GET /v3/glossaries/:id
PATCH /v3/glossaries/:id
DELETE /v3/glossaries/:id
GET /v3/glossaries/:id/entries
PUT /v3/glossaries/:id/dictionaries
DELETE /v3/glossaries/:id/dictionaries
GET /v3/spoken-terms
POST /v3/spoken-terms
GET /v3/spoken-terms/:id
PATCH /v3/spoken-terms/:id
DELETE /v3/spoken-terms/:id
GET /v3/spoken-terms/:id/entries
PUT /v3/spoken-terms/:id/term-lists
DELETE /v3/spoken-terms/:id/term-lists
GET /v3/style_rules
POST /v3/style_rules
GET /v3/style_rules/:id
PATCH /v3/style_rules/:id
DELETE /v3/style_rules/:id
PUT /v3/style_rules/:id/configured_rules
GET /v3/style_rules/:id/custom_instructions
POST /v3/style_rules/:id/custom_instructions
PUT /v3/style_rules/:id/custom_instructions/:id
DELETE /v3/style_rules/:id/custom_instructions/:id
GET /v3/translation_memories
GET /v3/translation_memories/:id
GET /v3/translation_memories/:id/segments
DELETE /v3/translation_memories/:id
POST /v3/translation_memories/import
POST /v3/translation_memories/:id/export
GET /v3/translation_memories/jobs/:id
GET /v3/assets/translation_memories/:id/download/x
PUT /v3/assets/translation_memories/:id/upload/x
POST /v3/assets/translation_memories/:id/upload/x
POST /v1/jobs/voice/translate
GET /v1/jobs/voice/translate/:id
PUT /v1/assets/voice/:id/upload
GET /v1/assets/voice/:id/results/0
POST /v1/quality-evaluation
GET /v1/quality-evaluation/:id
POST /v3/voice/realtime
GET /v3/voice/realtime?token=x`

const authorizationRoutes = `
GET /.well-known/jwks.json
GET /.well-known/oauth-authorization-server
GET /.well-known/openid-configuration
GET /.well-known/oauth-protected-resource
GET /.well-known/oauth-protected-resource/demo
GET /oauth/authorize
GET /oauth/authorize?unknown
GET /oauth/authorize?document
GET /oauth/authorize/continue?request=x
POST /oauth/token
POST /oauth/token?wrong
POST /oauth/introspect
POST /oauth/revoke
GET /login
POST /login
POST /logout
GET /consent?request=x
POST /consent
GET /authorize?provider=x
POST /authorize
GET /connect/x
GET /connect/x/callback?state=x&code=x
GET /connections
DELETE /connections/x
GET /oidc/start
GET /oidc/callback?state=x&code=x`

const chatRoutes = `
GET /v1/models
GET /v1/models/main/model
POST /v1/chat/completions
POST /v1/chat/completions?stream
POST /v1/chat/completions?down
POST /v1/responses
POST /v1/responses?stream
GET /v1/responses/:id
GET /v1/responses/:id/input_items
POST /v1/responses/:id/cancel
DELETE /v1/responses/:id`

const operationsRoutes = `
GET /livez
GET /ready
GET /health
GET /health/details
GET /metrics
OPTIONS /health`

const storeRoutes = `
GET /api/v1/products
GET /api/v1/products/1
PUT /api/v1/products/2
GET /api/v1/categories
GET /api/v1/orders
GET /api/v1/webhooks
GET /api/v1/stores
OPTIONS /api/v1/products
HEAD /api/v1/products/1
POST /api/v1/carts
GET /store/admin/login
POST /store/admin/login
GET /store/admin
GET /store/admin/style.css
GET /store/admin/api/session
GET /store/admin/products
POST /store/admin/logout`

const linesOf = (text: string): ReadonlyArray<readonly [method: string, path: string]> =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split(" ") as [string, string])

const chatBody = (more: object): string =>
  JSON.stringify({ model: "main/model", messages: [{ role: "user", content: "flood" }], ...more })

const authorizeQuery = (clientId: string): string =>
  new URLSearchParams({
    client_id: clientId,
    redirect_uri: "http://127.0.0.1:9/cb",
    response_type: "code",
    scope: "demo:read",
    state: "s",
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    code_challenge_method: "S256"
  }).toString()

/** The path and the body of each route for which `{}` would be no request at all. */
const requestsOf = (accounts: Accounts): Readonly<Record<string, () => Partial<Ask>>> => ({
  "POST /v2/translate": () => ({
    body: JSON.stringify({ text: [`Патоп ${random(1_000)}`], source_lang: "BE", target_lang: "DE" })
  }),
  "POST /v3/detect/language": () => ({ body: '{"text":["Guten Morgen, wie geht es dir?"]}' }),
  "POST /v2/write/correct": () => ({ body: '{"text":["She recieved a apple."],"target_lang":"en-US"}' }),
  "POST /v2/write/rephrase": () => ({ body: '{"text":["She got it."],"target_lang":"en-US"}' }),
  "POST /v2/languages": () => ({ body: '{"type":"target"}' }),
  "POST /v2/document": () => ({
    headers: { "Content-Type": "multipart/form-data; boundary=b" },
    body: `--b\r\nContent-Disposition: form-data; name="target_lang"\r\n\r\nXX\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${"text ".repeat(200)}\r\n--b--\r\n`
  }),
  "GET /oauth/authorize": () => ({ path: `/oauth/authorize?${authorizeQuery(accounts.clientId)}` }),
  "GET /oauth/authorize?unknown": () => ({
    path: `/oauth/authorize?${authorizeQuery(`unknown-${random(1e9)}`)}`
  }),
  // A metadata document on a private address is refused before anybody calls it.
  "GET /oauth/authorize?document": () => ({
    path: `/oauth/authorize?${authorizeQuery(`https://127.0.0.1:9/client/${random(1e9)}`)}`
  }),
  "POST /oauth/token": () => ({ body: "grant_type=client_credentials&scope=demo%3Aread" }),
  "POST /oauth/token?wrong": () => ({
    path: "/oauth/token",
    body: `grant_type=authorization_code&code=${random(1e9)}&redirect_uri=x&code_verifier=${"v".repeat(43)}`
  }),
  "POST /oauth/introspect": () => ({ body: `token=${random(1e9)}` }),
  "POST /oauth/revoke": () => ({ body: `token=${random(1e9)}` }),
  "POST /v1/chat/completions": () => ({ body: chatBody({}) }),
  "POST /v1/chat/completions?stream": () => ({
    path: "/v1/chat/completions",
    body: chatBody({ stream: true })
  }),
  "POST /v1/chat/completions?down": () => ({
    path: "/v1/chat/completions",
    body: chatBody({ model: "down/model" })
  }),
  "POST /v1/responses": () => ({ body: '{"model":"main/model","input":"flood"}' }),
  "POST /v1/responses?stream": () => ({
    path: "/v1/responses",
    body: '{"model":"main/model","input":"flood","stream":true}'
  }),
  "PUT /api/v1/products/2": () => ({ body: JSON.stringify({ item_name: `flood ${random(1e6)}` }) })
})

const headersOf = (accounts: Accounts): Readonly<Record<string, Readonly<Record<string, string>>>> => ({
  translation: { Authorization: `DeepL-Auth-Key ${accounts.translationKey}`, "Content-Type": jsonType },
  authorization: { Authorization: accounts.client, "Content-Type": formType },
  chat: { Authorization: `Bearer ${accounts.chatKey}`, "Content-Type": jsonType },
  operations: {},
  store: { "X-STORE-Auth-Token": accounts.storeToken, "Content-Type": jsonType }
})

/** Walks a list of routes round and round. */
const roundOf = (
  routes: ReadonlyArray<readonly [string, string]>,
  headers: Readonly<Record<string, string>>,
  requests: Readonly<Record<string, () => Partial<Ask>>>
): (() => Ask) => {
  let turn = random(routes.length)
  return () => {
    const [method, path] = routes[turn++ % routes.length]!
    const wanted = requests[`${method} ${path}`]?.() ?? {}
    const isForm = headers["Content-Type"] === formType
    const empty = isForm ? "x=y" : "{}"
    return {
      method,
      path: path.replaceAll(":id", uuid),
      ...(["POST", "PUT", "PATCH"].includes(method) ? { body: empty } : {}),
      ...wanted,
      headers: { ...fromAnywhere(), ...headers, ...wanted.headers }
    }
  }
}

/** Registrations of strangers and their wrong passwords, from sources that change. */
const strangers = (): (() => Ask) => {
  let turn = 0
  return () => {
    const isRegistration = turn++ % 2 === 0
    return isRegistration
      ? {
          method: "POST",
          path: "/oauth/register",
          headers: { ...fromAnywhere(), "Content-Type": jsonType },
          body: JSON.stringify({
            client_name: `stranger ${random(1e9)}`,
            redirect_uris: ["http://127.0.0.1:9/cb"],
            grant_types: ["authorization_code"],
            response_types: ["code"]
          })
        }
      : {
          method: "POST",
          path: "/store/admin/login",
          headers: { ...fromAnywhere(), "Content-Type": formType, Origin: "https://localhost" },
          body: `username=admin&password=${random(1e9)}`
        }
  }
}

/** Every public route, as fast as its holder may: a key of translation has 100 calls a second, a store's
 *  custom apps 5, a source of authorization 100 (and sources are many); chat counts no calls. */
export const permitted = (accounts: Accounts): ReadonlyArray<Stream> => {
  const headers = headersOf(accounts)
  const requests = requestsOf(accounts)
  const stream = (perSecond: number, service: string, routes: string): Stream => ({
    perSecond,
    next: roundOf(linesOf(routes), headers[service]!, requests)
  })
  return [
    stream(100, "translation", translationRoutes),
    stream(200, "authorization", authorizationRoutes),
    stream(50, "chat", chatRoutes),
    stream(20, "operations", operationsRoutes),
    stream(10, "store", storeRoutes),
    { perSecond: 4, next: strangers() }
  ]
}

/** Requests that are refused: without a key, with a wrong one, beyond a limit, for what is not there, too
 *  large, malformed. */
export const refused = (accounts: Accounts, perSecond: number): ReadonlyArray<Stream> => {
  const key = { Authorization: `DeepL-Auth-Key ${accounts.translationKey}` }
  const json = { "Content-Type": jsonType }
  const badKey = (): Readonly<Record<string, string>> => ({
    Authorization: `DeepL-Auth-Key ${random(1e9)}:fx`
  })
  const kinds: ReadonlyArray<() => Ask> = [
    () => ({ method: "POST", path: "/v2/translate", headers: json, body: "{}" }),
    () => ({ method: "POST", path: "/v2/translate", headers: { ...json, ...badKey() }, body: "{}" }),
    () => ({ method: "GET", path: "/v2/usage", headers: badKey() }),
    () => ({ method: "GET", path: "/v2/usage", headers: key }),
    () => ({ method: "POST", path: "/v2/translate", headers: { ...json, ...key }, body: '{"text":["' }),
    () => ({
      method: "POST",
      path: "/v2/document",
      headers: { ...key, "Content-Type": "multipart/form-data; boundary=b" },
      body: "--b\r\nContent-Disposition: nonsense\r\n\r\n--"
    }),
    () => ({ method: "POST", path: "/v1/chat/completions", headers: json, body: chatBody({}) }),
    () => ({
      method: "POST",
      path: "/v1/responses",
      headers: { ...json, Authorization: `Bearer ${random(1e9)}` },
      body: "{}"
    }),
    () => ({
      method: "POST",
      path: "/v1/chat/completions",
      headers: { ...json, Authorization: `Bearer ${accounts.chatKey}` },
      body: '{"model":'
    }),
    () => ({ method: "GET", path: "/api/v1/products" }),
    () => ({
      method: "GET",
      path: "/api/v1/products",
      headers: { "X-STORE-Auth-Token": `sat_${random(1e9)}` }
    }),
    () => ({ method: "GET", path: "/admin/clients" }),
    () => ({ method: "GET", path: "/admin/clients", headers: { Authorization: `Bearer ${random(1e9)}` } }),
    () => ({ method: "GET", path: "/console/api/keys", headers: { Authorization: "Bearer x" } }),
    () => ({
      method: "POST",
      path: "/oauth/token",
      headers: { Authorization: "Basic eDp5", "Content-Type": formType },
      body: "grant_type=client_credentials"
    }),
    () => ({ method: "POST", path: "/oauth/register", headers: json, body: "{" }),
    () => ({ method: "GET", path: `/nowhere/${random(1e9)}` }),
    () => ({ method: "DELETE", path: "/v2/translate" }),
    () => ({ method: "PATCH", path: "/oauth/token" }),
    () => ({
      method: "POST",
      path: "/oauth/token",
      headers: { "Content-Type": formType },
      body: "x".repeat(70_000)
    })
  ]
  let turn = 0
  return [
    {
      perSecond,
      next: () => {
        const ask = kinds[turn++ % kinds.length]!()
        return { ...ask, headers: { ...fromAnywhere(), ...ask.headers } }
      }
    }
  ]
}
