/** SIGKILL under a storm of every grant, again and again; a checker that knows every answer that was given.
 *  Authorization section 19.3. */
import { generateKeyPairSync, randomBytes } from "node:crypto"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, it } from "vitest"
import { buildChild, startChild, type Child } from "../../child.ts"
import { callback, jws, pkce } from "./world.ts"

const rounds = Number(process.env["TROUPE_CRASH_ROUNDS"] ?? 12)
const exchange = "urn:ietf:params:oauth:grant-type:token-exchange"
const bearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"
const accessType = "urn:ietf:params:oauth:token-type:access_token"

interface Family {
  tokens: Array<string>
  /** Answered, or sent and unanswered: what comes of the last token is not known. */
  open: boolean
  dead: boolean
}

interface Answered {
  readonly status: number
  readonly body: any
  readonly location: string | null
}

let running: Child | undefined

afterAll(() => {
  running?.process.kill("SIGKILL")
})

it("AS-74 AS-146 AS-150 kill -9 at random points of every grant: nothing answered is lost, nothing spent is spent twice, nothing revoked comes back, no secret is on disk", async () => {
  const folder = mkdtempSync(join(tmpdir(), "troupe-auth-"))
  const program = await buildChild("test/protocols/authorization/crash-child.ts")
  const idp = generateKeyPairSync("ec", { namedCurve: "P-256" })
  writeFileSync(join(folder, "idp.json"), JSON.stringify({ idpKey: idp.publicKey.export({ format: "jwk" }) }))
  let answered = 0
  let child: Child
  let base = ""
  let cookie = ""
  let client: { clientId: string; secret: string }
  let up = false
  const start = async (): Promise<void> => {
    child = running = startChild(program, [folder])
    const said = JSON.parse(await child.line(/^\{/)) as {
      port: number
      client: typeof client
      cookie: string
    }
    base = `http://127.0.0.1:${said.port}`
    ;({ client, cookie } = said)
    up = true
  }
  /** undefined: no answer came. */
  const ask = async (path: string, form?: Record<string, string>): Promise<Answered | undefined> => {
    try {
      const response = await fetch(`${base}${path}`, {
        redirect: "manual",
        ...(form === undefined
          ? { headers: { Cookie: cookie } }
          : {
              method: "POST",
              body: new URLSearchParams(form).toString(),
              headers: {
                "Content-Type": "application/x-www-form-urlencoded",
                Authorization: `Basic ${Buffer.from(`${client.clientId}:${client.secret}`).toString("base64")}`
              }
            })
      })
      const text = await response.text()
      answered++
      return {
        status: response.status,
        body: text.startsWith("{") ? JSON.parse(text) : undefined,
        location: response.headers.get("location")
      }
    } catch {
      return undefined
    }
  }
  const token = (form: Record<string, string>) => ask("/oauth/token", form)
  const families: Array<Family> = []
  const codes = new Map<string, number>()
  const assertions = new Map<string, number>()
  const live = new Set<string>()
  const revoked = new Set<string>()
  const secrets = new Set<string>()
  const { verifier, challenge } = pkce()
  const redeem = (code: string) =>
    token({ grant_type: "authorization_code", code, redirect_uri: callback, code_verifier: verifier })
  const count = (of: Map<string, number>, key: string): void => {
    of.set(key, (of.get(key) ?? 0) + 1)
  }

  const loops: ReadonlyArray<() => Promise<void>> = [
    async () => {
      // code → family → refresh …
      const answer = await ask(
        `/oauth/authorize?${new URLSearchParams({ client_id: client.clientId, redirect_uri: callback, response_type: "code", code_challenge: challenge, code_challenge_method: "S256", scope: "files:read" })}`
      )
      const code = answer?.location == null ? null : new URL(answer.location, base).searchParams.get("code")
      if (code === null) return
      codes.set(code, 0)
      secrets.add(code)
      const answers = await Promise.all([redeem(code), ...(Math.random() < 0.3 ? [redeem(code)] : [])])
      for (const each of answers) if (each?.status === 200) count(codes, code)
      if (answers.length > 1) return
      if (answers[0]?.status === 200)
        families.push({ tokens: [answers[0].body.refresh_token], open: false, dead: false })
    },
    async () => {
      // refresh
      const family = families.filter(({ open, dead }) => !open && !dead)[Math.floor(Math.random() * 50)]
      if (family === undefined) return
      family.open = true
      const answer = await token({ grant_type: "refresh_token", refresh_token: family.tokens.at(-1)! })
      if (answer === undefined) return
      expect([answer.status, answer.body.error]).toEqual([200, undefined])
      family.tokens.push(answer.body.refresh_token)
      family.open = false
    },
    async () => {
      // reuse, or revocation
      const family = families.filter(({ open, dead, tokens }) => !open && !dead && tokens.length > 1)[
        20 + Math.floor(Math.random() * 10)
      ]
      if (family === undefined) return
      family.open = true
      const answer =
        Math.random() < 0.5
          ? await token({ grant_type: "refresh_token", refresh_token: family.tokens[0]! })
          : await ask("/oauth/revoke", { token: family.tokens.at(-1)! })
      if (answer === undefined) return
      family.dead = true
    },
    async () => {
      // assertions, each twice
      const nowS = Math.floor(Date.now() / 1_000)
      const jti = randomBytes(8).toString("hex")
      const assertion = jws(
        { typ: "oauth-id-jag+jwt", alg: "ES256" },
        {
          iss: "https://idp.example.com",
          sub: "alice",
          aud: "http://localhost:9",
          client_id: client.clientId,
          jti,
          iat: nowS,
          exp: nowS + 300
        },
        idp.privateKey
      )
      assertions.set(assertion, 0)
      for (let twice = 0; twice < 2; twice++)
        if ((await token({ grant_type: bearer, assertion }))?.status === 200) count(assertions, assertion)
    },
    async () => {
      // client credentials, exchanged, then sometimes revoked
      const answer = await token({ grant_type: "client_credentials" })
      if (answer?.status !== 200) return
      const derived = await token({
        grant_type: exchange,
        subject_token: answer.body.access_token,
        subject_token_type: accessType
      })
      if (derived?.status !== 200) return
      if (Math.random() < 0.5) {
        live.add(derived.body.access_token)
        return
      }
      if ((await ask("/oauth/revoke", { token: answer.body.access_token })) !== undefined) {
        revoked.add(answer.body.access_token)
        revoked.add(derived.body.access_token)
      }
    }
  ]
  const pick = <A>(of: Iterable<A>, most: number): ReadonlyArray<A> => {
    const all = [...of]
    return all.slice(-most)
  }
  const check = async (): Promise<void> => {
    for (const [code, won] of codes) expect(won, code).toBeLessThanOrEqual(1)
    for (const won of assertions.values()) expect(won).toBeLessThanOrEqual(1)
    for (const [assertion] of pick(assertions, 6))
      if (assertions.get(assertion)! > 0)
        expect((await token({ grant_type: bearer, assertion }))!.status).toBe(400)
    for (const each of pick(live, 20)) {
      const answer = await ask("/oauth/introspect", { token: each })
      expect([answer!.status, answer!.body.active]).toEqual([200, true])
    }
    for (const each of pick(revoked, 20))
      expect((await ask("/oauth/introspect", { token: each }))!.body.active).toBe(false)
    for (const family of families.filter(({ dead }) => dead).slice(-10))
      expect(
        (await token({ grant_type: "refresh_token", refresh_token: family.tokens.at(-1)! }))!.body.error
      ).toBe("invalid_grant")
    for (const family of families.filter(({ dead, open }) => !dead && !open).slice(-10)) {
      const answer = await token({ grant_type: "refresh_token", refresh_token: family.tokens.at(-1)! })
      expect(answer!.status).toBe(200)
      family.tokens.push(answer!.body.refresh_token)
    }
    // Whose last answer was lost: the old token is either still current, or consumed and then the family dies
    // of it. Never anything between.
    for (const family of families.filter(({ open }) => open)) {
      const answer = await token({ grant_type: "refresh_token", refresh_token: family.tokens.at(-1)! })
      if (answer!.status === 200) {
        family.tokens.push(answer!.body.refresh_token)
        family.open = false
      } else {
        expect(answer!.body.error).toBe("invalid_grant")
        family.dead = true
        family.open = false
      }
    }
  }
  let seed = 5
  for (let round = 0; round < rounds; round++) {
    await start()
    await check()
    const storm = loops.flatMap((loop) =>
      Array.from({ length: 3 }, async () => {
        while (up) {
          await loop()
          await new Promise(setImmediate)
        }
      })
    )
    seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff
    // By answers, not by time: a busy machine must not make the storm a breeze.
    for (const enough = answered + 60 + ((seed >> 8) % 60); answered < enough;)
      await new Promise((resolve) => setTimeout(resolve, 3))
    child!.process.kill("SIGKILL")
    up = false
    await child!.exited
    await Promise.all(storm)
  }
  await start()
  await check()
  expect(families.length).toBeGreaterThan(rounds / 2)
  expect(families.some(({ tokens }) => tokens.length > 2)).toBe(true)
  child!.process.kill("SIGKILL")
  await child!.exited
  for (const each of [
    ...live,
    ...revoked,
    ...families.flatMap(({ tokens }) => tokens),
    client!.secret,
    cookie.split("=").at(-1)!,
    "correct horse battery"
  ])
    secrets.add(each.split(".").at(-1)!)
  const files = readdirSync(join(folder, "store"), { recursive: true })
    .map((name) => join(folder, "store", String(name)))
    .filter((path) => statSync(path).isFile())
  const dump = Buffer.concat(files.map((path) => readFileSync(path)))
  expect(dump.length).toBeGreaterThan(10_000)
  for (const secret of pick(secrets, 300)) expect(dump.includes(secret)).toBe(false)
  rmSync(folder, { recursive: true, force: true })
}, 240_000)
