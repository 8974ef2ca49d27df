/** Determines how the command line reaches a running server, and with which secrets: those of the command
 *  line, otherwise those of the data folder on this machine. */
import { existsSync } from "node:fs"
import { join } from "node:path"
import { masterKey, sealer } from "../../../storage/seal.ts"
import type { Config } from "../config/config.ts"
import { readLocalSecrets, type LocalSecrets } from "../local-secrets.ts"

export interface Client {
  readonly url: string
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

export const clientOf = (config: Config, overrides: ClientOverrides): Client => {
  const keyed = config.masterKey !== undefined || existsSync(join(config.data, "master.key"))
  let secrets: LocalSecrets | undefined
  try {
    secrets = keyed
      ? readLocalSecrets(config.data, sealer(masterKey(config.data, config.masterKey)))
      : undefined
  } catch {
    secrets = undefined
  }
  return {
    url: (
      overrides.url ??
      config.publicBase ??
      `${config.tlsCert === undefined ? "http" : "https"}://localhost:${config.port}`
    ).replace(/\/+$/, ""),
    key: overrides.key ?? secrets?.developerKey,
    adminKey: config["admin.api_key"] ?? secrets?.oauthAdminKey,
    secrets
  }
}

const authorizationOf = ({ key, adminKey, secrets }: Client, path: string): string => {
  if (path.startsWith("/console/")) return `Bearer ${secrets?.operatorToken ?? ""}`
  return path.startsWith("/admin/") ? `Bearer ${adminKey ?? ""}` : `DeepL-Auth-Key ${key ?? ""}`
}

export const call = async <A>(client: Client, method: string, path: string, body?: unknown): Promise<A> => {
  const { url } = client
  const answer = await fetch(url + path, {
    method,
    headers: {
      Authorization: authorizationOf(client, path),
      ...(body === undefined ? {} : { "Content-Type": "application/json" })
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  }).catch((cause: Error) => {
    throw new Error(
      `no server answers at ${url} (${(cause.cause as Error | undefined)?.message ?? cause.message}); start one with: npx troupe serve`
    )
  })
  const text = await answer.text()
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined
  }
  if (answer.ok) return value as A
  const { message, detail } = (value ?? {}) as { readonly message?: string; readonly detail?: string }
  throw new Error(
    `${answer.status}: ${message ?? (text === "" ? "no message" : text)}${detail === undefined ? "" : ` (${detail})`}`
  )
}
