/** Test mode: the same service over a fixture engine, with accounts created by their first request, and the
 *  hooks with which the vendor's client test-suites control it. It uses a store of its own, never one with
 *  real accounts.
 *  Source: docs/spec/translation.md, section 18. */
import { randomUUID } from "node:crypto"
import {
  effectOf,
  json,
  type Handler,
  type Request,
  type Response,
  type Route,
  type Service
} from "../../../runtime/http.ts"
import { committed } from "../../../storage/store.ts"
import { readForm } from "../../shared/body.ts"
import { limitsDefault } from "../account/rate-limit.ts"
import { problem } from "../problems.ts"
import { Accounts, KeyHashes, Keys, labelDefault } from "../account/records.ts"
import { noStore, ok } from "../endpoint.ts"
import { KeyRing } from "../account/keys.ts"
import { translation, type TranslationDeps } from "../routes.ts"
import { Usage } from "../account/usage.ts"
import { Effect } from "effect"
import { JobFault } from "../../../actors/documents/ports.ts"
import type { Engines } from "../../../actors/engines/ports.ts"
import type { DocumentDeps } from "../documents/routes.ts"
import { createResources, type Resources } from "../resources.ts"
import { fixtureEngines, fixtureMemoryId, fixtureStyle, memoryRow, putFixtures } from "./fixtures.ts"
import { Sessions, type Session } from "./sessions.ts"

const lastRequestPath = "/__session__/last-request"

const secretOf = (authorization: string | undefined): string | undefined =>
  /^deepl-auth-key[ \t]+(\S{1,200})[ \t]*$/i.exec(authorization ?? "")?.[1]

const looksMax = 150
const lookEveryMs = 20
const limited = /^\/v2\/(?:translate|write\/)/
const refusal = (status: number, message: string): Response => json(status, { message }, noStore)

/** A handler that never answers; the connection stays open until the client closes it. */
const silence = (): Promise<Response> => new Promise(() => {})

export interface TestMode {
  readonly service: Service
  readonly sessions: Sessions
}

export interface TestModeDeps extends Omit<TranslationDeps, "engines" | "fixtures" | "documents" | "kept"> {
  /** Creates documents over these engines; they read their delays and failures through `before`. */
  readonly documents?: (
    engines: Engines,
    stored: Resources,
    before: NonNullable<DocumentDeps["before"]>
  ) => Promise<TranslationDeps["documents"]>
}

export const testMode = async ({ documents: makeDocuments, ...deps }: TestModeDeps): Promise<TestMode> => {
  const { store, hashKey, clock, ring = new KeyRing(store, hashKey), usage = new Usage(store, clock) } = deps
  const sessions = new Sessions(clock)
  const engines = fixtureEngines()
  await putFixtures(store)
  const stored = createResources({
    ...deps,
    ring,
    usage,
    engines,
    fixtures: { styles: [fixtureStyle], memories: new Set([fixtureMemoryId]) }
  })
  const documents = await makeDocuments?.(engines, stored, (accountId) =>
    Effect.suspend(() => {
      const session = sessions.ofAccount(accountId)
      if (session === undefined) return Effect.void
      if (session.documentFailures > 0) {
        session.documentFailures--
        return Effect.fail(new JobFault({ text: "Translation error triggered" }))
      }
      return Effect.sleep(session.documentQueueMs + session.documentTranslateMs)
    })
  )
  const service = translation({
    ...deps,
    ring,
    usage,
    engines,
    resources: stored,
    limits: { ...limitsDefault, calls: 1_000_000 },
    ...(documents === undefined ? {} : { documents })
  })

  /** Returns the key of a request; its account is created at first use. */
  const admitted = async (authorization: string | undefined, session: Session | undefined): Promise<void> => {
    const secret = secretOf(authorization)
    if (secret === undefined || secret === "invalid" || KeyHashes.get(store, [hashKey(secret)]) !== undefined)
      return
    const accountId = randomUUID()
    if (session !== undefined) sessions.owns(accountId, session)
    const keyId = randomUUID()
    const nowMs = clock()
    const none = { characters: null, speechToTextMs: null, speechToSpeechMs: null }
    await committed(store, [
      Accounts.put([accountId], {
        accountId,
        tier: secret.endsWith(":fx") ? "free" : "paid",
        createdMs: nowMs,
        limits: {
          ...none,
          characters: session === undefined ? 20_000_000 : session.characterLimit,
          documents: session === undefined ? 10_000 : session.documentLimit,
          teamDocuments: session?.teamDocumentLimit ?? null
        }
      }),
      Keys.put([accountId, keyId], {
        accountId,
        keyId,
        role: secret.endsWith(":adm") ? "admin" : "developer",
        label: labelDefault,
        createdMs: nowMs,
        deactivatedMs: null,
        limits: none,
        scopes: null,
        masked: `${secret.slice(0, 4)}****${secret.slice(-4)}`
      }),
      KeyHashes.put([hashKey(secret)], { accountId, keyId }, "absent"),
      memoryRow(accountId)
    ]).catch(() => {}) // a neighbour request has made it in the same turn
  }
  const steered =
    (route: Route): Handler =>
    async (request) => {
      const session = sessions.of(request)
      if (session !== undefined) {
        const query = readForm(request.query)
        session.last = {
          method: request.method,
          path: request.path,
          headers: Object.fromEntries(request.headers.entries()),
          query: "_tag" in query ? {} : ({ ...query.bag } as Record<string, string>),
          body: Buffer.from(request.body).toString("utf8")
        }
        if (session.noResponse > 0) {
          session.noResponse--
          return silence()
        }
        if (session.failing > 0) {
          session.failing--
          return refusal(session.failingStatus, "Failure by request of the session")
        }
        if (session.expectsProxy && request.headers.get("forwarded") === undefined)
          return refusal(400, "Expected proxy requests")
      }
      if (
        (request.headers.get("user-agent") ?? "") === "" &&
        session?.allowsMissingUserAgent !== true &&
        !request.path.startsWith("/v3/assets/")
      )
        return refusal(400, "Missing User-Agent header")
      if (session !== undefined && session.tooMany > 0 && limited.test(request.path)) {
        session.tooMany--
        return problem({ _tag: "Limited", retryAfterMs: 1_000 })
      }
      await admitted(request.headers.get("authorization"), session)
      const response = await settled(route, request, session)
      return session === undefined || response.status !== 200 || typeof response.body !== "string"
        ? response
        : retold(route.path, request, response, session)
    }
  /** Waits until documents are done, unless the session wants them slow: a client that sees one unfinished
   *  polls again only after seconds. */
  const settled = async (route: Route, request: Request, session: Session | undefined): Promise<Response> => {
    const slow = session !== undefined && session.documentQueueMs + session.documentTranslateMs > 0
    for (let looks = 0; ; looks++) {
      const response = await Effect.runPromise(effectOf(route.handle(request)), { signal: request.signal })
      const unfinished =
        route.path === "/v2/document/:id" &&
        typeof response.body === "string" &&
        /"status":"(?:queued|translating)"/.test(response.body)
      if (slow || !unfinished || looks >= looksMax) return response
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs))
    }
  }
  /** Applies the session's settings to an answer. */
  const retold = (path: string, request: Request, response: Response, session: Session): Response => {
    if (path === "/v2/usage" && session.characterLimit === null) {
      return ok(
        Object.fromEntries(
          Object.entries(JSON.parse(response.body as string) as object).filter(
            ([name]) => !name.startsWith("character_")
          )
        )
      )
    }
    if (path === "/v3/translation_memories/jobs/:job_id" && session.memoryPolls > 0) {
      const job = JSON.parse(response.body as string) as {
        operation: string
        results: ReadonlyArray<{ status: string }>
      }
      if (sessions.polling(session, request.params["job_id"] ?? "")) {
        return ok({
          ...job,
          results: [
            job.operation === "import"
              ? { status: "awaiting_input", status_metadata: { required_action: "Waiting for upload" } }
              : { status: "processing" }
          ]
        })
      }
    }
    return response
  }
  const translate = service.routes.find(({ path, method }) => path === "/v2/translate" && method === "POST")!
  const routes = [...service.routes, { ...translate, path: "/v2/translate_secondary" }].map((route) =>
    route.path === "/healthz" ? route : { ...route, handle: steered(route) }
  )
  return {
    sessions,
    service: {
      ...service,
      prefixes: [...service.prefixes, "/__session__/"],
      routes: [
        ...routes,
        {
          method: "GET",
          path: lastRequestPath,
          handle: (request) => {
            const name = request.headers.get("mock-server-session")
            if (name === undefined || name === "") return refusal(400, "Missing mock-server-session header")
            const last = sessions.find(name)?.last
            return last === undefined ? refusal(404, "No request of this session") : ok(last)
          }
        }
      ]
    }
  }
}
