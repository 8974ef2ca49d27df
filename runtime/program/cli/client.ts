/** Determines how the command line reaches a running server, and with which secrets: those of the command
 *  line, otherwise those of the data folder on this machine. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { masterKey, sealer, type Sealer } from "../../../storage/seal.ts"
import { isForOperators } from "../admin-listener.ts"
import type { Config } from "../config/config.ts"
import { readLocalSecrets, type LocalSecrets } from "../local-secrets.ts"
import { requestPatiently } from "./patient-request.ts"

export interface Client {
  readonly url: string
  /** Where the admin API and the console are. */
  readonly adminUrl: string
  readonly key: string | undefined
  /** Key of the authorization server's admin API. */
  readonly adminKey: string | undefined
  readonly secrets: LocalSecrets | undefined
}

/** Values of the command line that override the configuration. */
export interface ClientOverrides {
  readonly url?: string
  readonly key?: string
}

/** Returns what opens the sealed values of the data folder; undefined where there is no master key yet. */
export const sealerOf = (config: Config): Sealer | undefined =>
  config.masterKey !== undefined || existsSync(join(config.data, "master.key"))
    ? sealer(masterKey(config.data, config.masterKey))
    : undefined

const secretsOf = (config: Config): LocalSecrets | undefined => {
  try {
    const seal = sealerOf(config)
    return seal === undefined ? undefined : readLocalSecrets(config.data, seal)
  } catch {
    return undefined
  }
}

export const clientOf = (config: Config, overrides: ClientOverrides): Client => {
  const secrets = secretsOf(config)
  const scheme = config.tlsCert === undefined ? "http" : "https"
  const url = (overrides.url ?? config.publicBase ?? `${scheme}://localhost:${config.port}`).replace(
    /\/+$/,
    ""
  )
  const adminAddress = config["admin.address"]
  return {
    url,
    adminUrl: overrides.url !== undefined || adminAddress === undefined ? url : `${scheme}://${adminAddress}`,
    key: overrides.key ?? secrets?.developerKey,
    adminKey: config["admin.api_key"] ?? secrets?.oauthAdminKey,
    secrets
  }
}

const authorizationOf = ({ key, adminKey, secrets }: Client, path: string): string => {
  if (path.startsWith("/console/")) return `Bearer ${secrets?.operatorToken ?? ""}`
  return path.startsWith("/admin/") ? `Bearer ${adminKey ?? ""}` : `DeepL-Auth-Key ${key ?? ""}`
}

const baseFor = ({ url, adminUrl }: Client, path: string): string => (isForOperators(path) ? adminUrl : url)

const headersFor = (client: Client, path: string, body: unknown): Readonly<Record<string, string>> => ({
  Authorization: authorizationOf(client, path),
  ...(body === undefined ? {} : { "Content-Type": "application/json" })
})

const bodyOf = (body: unknown) => (body === undefined ? {} : { body: JSON.stringify(body) })

const unreachable = (url: string, cause: Error): never => {
  throw new Error(
    `no server answers at ${url} (${(cause.cause as Error | undefined)?.message ?? cause.message}); start one with: npx troupe serve`,
    { cause }
  )
}

const valueOf = <A>(status: number, text: string): A => {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (status >= 200 && status < 300) return value as A
  const { message, detail } = (value ?? {}) as { readonly message?: string; readonly detail?: string }
  throw new Error(
    `${status}: ${message ?? (text === "" ? "no message" : text)}${detail === undefined ? "" : ` (${detail})`}`
  )
}

export const call = async <A>(client: Client, method: string, path: string, body?: unknown): Promise<A> => {
  const headers = headersFor(client, path, body)
  const base = baseFor(client, path)
  const answer = await fetch(base + path, { method, headers, ...bodyOf(body) }).catch((cause: Error) =>
    unreachable(base, cause)
  )
  return valueOf(answer.status, await answer.text())
}

/** Calls what may take long, and waits for it without a deadline. */
export const callPatiently = async <A>(
  client: Client,
  method: string,
  path: string,
  body?: unknown
): Promise<A> => {
  const headers = headersFor(client, path, body)
  const base = baseFor(client, path)
  const url = base + path
  const { status, text } = await requestPatiently({ method, url, headers, ...bodyOf(body) }).catch(
    (cause: Error) => unreachable(base, cause)
  )
  return valueOf(status, text)
}
