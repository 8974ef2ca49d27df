/** Stores the secrets of a first start on this machine: they are printed once, and stay sealed in the data
 *  folder so that the command line on this machine can use them. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { writeWholeSync } from "../../storage/files.ts"
import type { Sealer } from "../../storage/seal.ts"

export interface LocalSecrets {
  readonly accountId: string
  readonly developerKey: string
  readonly adminKey: string
  readonly operatorToken: string
  /** The demo shop's token, and its admin's name and password. */
  readonly storeToken?: string
  readonly storeUser?: string
  readonly storePassword?: string
  /** The authorization server's admin key, and the secrets of its demo client and demo user. */
  readonly oauthAdminKey?: string
  readonly oauthClientId?: string
  readonly oauthClientSecret?: string
  readonly oauthUser?: string
  readonly oauthPassword?: string
  readonly oauthUserId?: string
}

const name = "local.sealed"

export const readLocalSecrets = (folder: string, { open }: Sealer): LocalSecrets | undefined => {
  const path = join(folder, name)
  return existsSync(path)
    ? (JSON.parse(new TextDecoder().decode(open(readFileSync(path), "local", name))) as LocalSecrets)
    : undefined
}

export const writeLocalSecrets = (folder: string, { seal }: Sealer, secrets: LocalSecrets): void => {
  writeWholeSync(join(folder, name), seal(new TextEncoder().encode(JSON.stringify(secrets)), "local", name))
}
