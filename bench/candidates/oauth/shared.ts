/** Every authorization candidate shares one client with Basic authentication, one resource, and the seeds
 *  that tell the load program what to send. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The answer to GET /seed?of=KIND&n=N. */
export interface Seeds {
  readonly path: string
  readonly tokens: ReadonlyArray<string>
  /** A text that every correct answer contains. */
  readonly expect: string
}

export const clientId = "bench-client"
export const clientSecret = "Zm9yLXRoZS1iZW5jaC1vbmx5LTMyLWJ5dGVzLWxvbmch"
export const redirectUri = "http://localhost:9/cb"
export const issuer = "http://localhost:8080"
export const audience = "https://api.example.com/v1"
export const scopes = ["read", "write"]
export const accessTokenSeconds = 3_600
export const refreshTokenSeconds = 86_400

const authorization = `Basic ${Buffer.from(`${clientId}:${clientSecret}`).toString("base64")}`

export const announce = (port: number): void => console.log(`${port} ${authorization}`)

export const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-bench-"))
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  process.on("SIGTERM", () => process.exit(0))
  return folder
}

/** An access token that the server itself issued by client_credentials. */
export const requestAccessToken = async (port: number, path: string): Promise<string> => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { authorization, "content-type": "application/x-www-form-urlencoded" },
    body: "grant_type=client_credentials&scope=read"
  })
  return ((await answer.json()) as { readonly access_token: string }).access_token
}

export const isIntrospection = (kind: string): boolean => kind.startsWith("introspect")
