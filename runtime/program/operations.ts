/** The operational endpoints that every node answers whatever it serves: health, metrics, and for the
 *  operator (bearer token) actors, keys and backup. This module knows no service: whatever a service
 *  contributes is passed in as functions. Source: docs/operations.md. */
import { Effect } from "effect"
import type { BackupSummary, Integrity, StorageFault } from "../../storage/store.ts"
import {
  json,
  mapLater,
  type Handler,
  type Headers,
  type Response,
  type Route,
  type Service
} from "../http.ts"
import type { ActorSystem } from "../registry.ts"
import { prometheusText, prometheusType } from "./telemetry/prometheus.ts"
import type { Metrics } from "../metrics.ts"

export interface EngineView {
  readonly port: string
  readonly id: string
  readonly version: string
  readonly tier: string
  readonly licence: string
  readonly ready: boolean
  readonly reason?: string
}

export interface Operations {
  readonly actors: ActorSystem
  readonly metrics: Metrics
  readonly engines: () => ReadonlyArray<EngineView>
  readonly adapter: () => string
  /** Compares the token with the operator's in constant time. */
  readonly isOperator: (token: string) => boolean
  readonly keys: {
    readonly list: () => unknown
    readonly create: (label: string | undefined) => Promise<unknown>
    readonly deactivate: (keyId: string) => Promise<unknown>
  }
  /** Ends, and leaves nothing behind, when it is interrupted. */
  readonly backup: (folder: string) => Effect.Effect<BackupSummary, StorageFault>
  readonly check: () => Effect.Effect<Integrity, StorageFault>
  readonly probes?: Probes
}

/** What a service contributes to health and metrics, and how it restricts who may read them. */
export interface Probes {
  readonly draining: () => boolean
  readonly details: () => Promise<Record<string, unknown>>
  /** Returns the refusal when the caller may not read this path, otherwise undefined. */
  readonly denied: (path: string, headers: Headers) => Response | undefined
  /** Adds the headers that every response of the service carries. */
  readonly withHeaders: (response: Response, headers: Headers) => Response
  /** Answers an OPTIONS request. */
  readonly preflight: (headers: Headers) => Response
}

const noStore = [["Cache-Control", "no-store"]] as const
const ok = (value: unknown): Response => json(200, value, noStore)
const fail = (status: number, message: string): Response => json(status, { message }, noStore)
const refusalMessages: Readonly<Record<number, string>> = {
  404: "Not found",
  405: "Method not allowed",
  507: "Storage is full"
}
/** Decodes a part of a path; undefined when its percent-encoding is malformed. */
const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}
const bodyBytesMax = 65_536
const listMax = 1_000
const startedMs = Date.now()

export const operations = ({
  actors,
  metrics,
  engines,
  adapter,
  isOperator,
  keys,
  backup,
  check,
  probes
}: Operations): Service => {
  const guarded =
    (handle: Handler): Handler =>
    (request) => {
      const token = /^bearer\s+(\S{1,500})$/i.exec(request.headers.get("authorization") ?? "")?.[1]
      return token !== undefined && isOperator(token)
        ? handle(request)
        : json(401, { message: "the operator's token is wanted" }, [
            ["WWW-Authenticate", "Bearer"],
            ...noStore
          ])
    }
  const bodyOf = (bytes: Uint8Array): Record<string, unknown> => {
    try {
      const value: unknown = JSON.parse(new TextDecoder().decode(bytes))
      return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {}
    } catch {
      return {}
    }
  }
  /** Makes the routes of an endpoint that a service's callers may read too, browsers included. */
  const open = (path: string, handle: Handler): ReadonlyArray<Route> => {
    const seen: Route = {
      method: "GET",
      path,
      handle: (request) => {
        const dress = (response: Response): Response =>
          probes?.withHeaders(response, request.headers) ?? response
        const answer = probes?.denied(path, request.headers) ?? handle(request)
        return mapLater(answer, dress)
      }
    }
    return probes === undefined
      ? [seen]
      : [seen, { method: "OPTIONS", path, handle: ({ headers }) => probes.preflight(headers) }]
  }
  /** On a full disk the node stays ready, because it still serves whatever needs no write. */
  const db = (): string => actors.store.writeFault()?.reason ?? "ok"
  const fitness = (): string => (db() === "ok" ? "ok" : "degraded")
  /** Makes the routes below `/console/api/` that name one actor: an id may hold slashes. */
  const ofActor = (method: string, what: string, answer: (kind: string, id: string) => Response): Route => ({
    method,
    path: `/console/api/${what}/:kind/*`,
    handle: guarded(({ params }) => {
      const id = decoded(params["*"]!)
      return id === undefined ? fail(400, "the id is not percent-encoded") : answer(params["kind"]!, id)
    })
  })
  const whole = { as: "buffer", bytesMax: bodyBytesMax } as const
  const text = (body: string, type = "text/plain; charset=utf-8"): Response => ({
    status: 200,
    headers: [["Content-Type", type], ...noStore],
    body
  })
  return {
    name: "operations",
    prefixes: ["/"],
    refused: (status, _, allow) =>
      json(status === 507 ? 503 : status, { message: refusalMessages[status] ?? `Refused (${status})` }, [
        ...noStore,
        ...(status === 507 ? [["Retry-After", "5"] as const] : []),
        ...(allow === undefined ? [] : [["Allow", allow] as const])
      ]),
    routes: [
      { method: "GET", path: "/livez", handle: () => ok({ status: "ok" }) },
      {
        method: "GET",
        path: "/ready",
        handle: () =>
          json(
            actors.running ? 200 : 503,
            { status: actors.running ? fitness() : "stopping", time: new Date().toISOString(), db: db() },
            noStore
          )
      },
      ...open("/health", () => {
        const draining = !actors.running || probes?.draining() === true
        return json(
          draining ? 503 : 200,
          {
            status: draining ? "draining" : fitness(),
            proxy: true,
            timestamp: new Date().toISOString(),
            time: new Date().toISOString(),
            db: db()
          },
          noStore
        )
      }),
      ...open("/health/details", async () =>
        ok({
          status: actors.running ? "ok" : "stopping",
          ...(await probes?.details()),
          ...(actors.running && db() !== "ok" ? { status: fitness() } : {}),
          db: db(),
          upSeconds: Math.round((Date.now() - startedMs) / 1_000),
          adapter: adapter(),
          durability: actors.store.durability,
          engines: engines(),
          actors: actors
            .overview()
            .map(({ kind, live, failed, restarts, degraded, deadLetters }) => ({
              kind,
              live,
              failed,
              restarts,
              degraded,
              deadLetters
            })),
          stumbles: actors.stumbles
        })
      ),
      ...open("/metrics", () => text(prometheusText(metrics), prometheusType)),
      {
        method: "GET",
        path: "/console/api/actors",
        handle: guarded(() =>
          ok({
            kinds: actors.overview(),
            actors: actors.overview().flatMap(({ kind }) => actors.list(kind, listMax)),
            deadLetters: actors.deadLetters
          })
        )
      },
      ofActor("GET", "actors", (kind, id) => {
        const view = actors.inspect(kind, id)
        return view === undefined ? fail(404, "no such actor in memory") : ok(view)
      }),
      ofActor("GET", "journal", (kind, id) =>
        actors.overview().some((of) => of.kind === kind)
          ? ok(actors.journal(kind, id))
          : fail(404, "no such kind")
      ),
      ofActor("POST", "restart", (kind, id) =>
        actors.restart(kind, id) ? ok({ restarted: true }) : fail(404, "no such actor in memory")
      ),
      { method: "GET", path: "/console/api/keys", handle: guarded(() => ok(keys.list())) },
      {
        method: "POST",
        path: "/console/api/keys",
        body: whole,
        handle: guarded(async ({ body }) => {
          const { label } = bodyOf(body)
          return ok(await keys.create(typeof label === "string" ? label : undefined))
        })
      },
      {
        method: "POST",
        path: "/console/api/keys/:id/deactivate",
        handle: guarded(
          async ({ params }) =>
            await keys
              .deactivate(params["id"]!)
              .then((key) => (key === undefined ? fail(404, "no such key") : ok(key)))
        )
      },
      {
        method: "POST",
        path: "/console/api/backup",
        body: whole,
        handle: guarded(({ body }) => {
          const { folder } = bodyOf(body)
          if (typeof folder !== "string" || folder === "" || folder.includes("\0"))
            return fail(400, "wants a folder")
          return Effect.match(backup(folder), {
            onSuccess: (summary) => ok({ folder, ...summary }),
            onFailure: ({ message }) => fail(409, message)
          })
        })
      },
      {
        method: "GET",
        path: "/console/api/check",
        handle: guarded(() =>
          Effect.match(check(), {
            onSuccess: ok,
            onFailure: (cause) => ({ ...fail(500, cause.message), cause })
          })
        )
      }
    ]
  }
}
