/** `npm run strangers`: starts the built program and sends what strangers without an account can send, from many
 *  sources, as fast as it is answered: token requests of unknown clients, authorization requests of 4,000
 *  characters that nobody finishes, and proofs of possession, a third of each. It prints what the heap (after a
 *  collection) and the store's file have grown by, for each tenth, and demands that they stay below the limits
 *  and are flat over the last half.
 *
 *      npm run strangers                         a million requests
 *      npm run strangers -- --count 200000       fewer
 *      npm run strangers -- --sources 200000     from more addresses (default 65,536)
 *
 *  It ends with 0 when everything held, and with 1 otherwise. */
import { spawn } from "node:child_process"
import { generateKeyPairSync, randomBytes, sign } from "node:crypto"
import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { Connection } from "./connection.mjs"

const root = fileURLToPath(new URL("../..", import.meta.url))
const mebibyte = 2 ** 20
const heapMax = 64 * mebibyte
const fileMax = 256 * mebibyte

/** Growth within the last half that still counts as flat, as a part of the limit. */
const flatPart = 0.1

const connections = 64
const callback = "https://app.example.com/cb"
const adminKey = randomBytes(24).toString("base64url")

const { values: options } = parseArgs({
  options: {
    count: { type: "string", default: "1000000" },
    sources: { type: "string", default: "65536" },
    port: { type: "string", default: "28080" }
  }
})
const count = Number(options.count)
const sources = Number(options.sources)
const port = Number(options.port)
const issuer = `http://localhost:${port}`
const data = mkdtempSync(join(tmpdir(), "troupe-strangers-"))

const startServer = async () => {
  const server = spawn(
    process.execPath,
    [
      "--expose-gc",
      "--import",
      new URL("probe.mjs", import.meta.url).href,
      join(root, "runtime/bin/troupe.mjs"),
      "serve"
    ],
    {
      env: {
        ...process.env,
        TROUPE_DATA: data,
        TROUPE_PORT: String(port),
        TROUPE_TRUSTED_PROXIES: "127.0.0.1",
        TROUPE_LOG_LEVEL: "error",
        SERVICE_ADMIN_API_KEY: adminKey,
        SERVICE_SERVER_ISSUER: issuer
      },
      stdio: ["ignore", "pipe", "inherit", "ipc"]
    }
  )
  await new Promise((resolve, reject) => {
    server.stdout.on("data", (text) => {
      if (String(text).includes("listens on")) resolve()
    })
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}`)))
  })
  return server
}

const administer = async (path, body) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
    method: "POST",
    headers: { Authorization: `Bearer ${adminKey}`, "Content-Type": "application/json" },
    body: JSON.stringify(body)
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return answer.json()
}

const measured = (server) =>
  new Promise((resolve) => {
    server.once("message", (memory) => {
      // The file is sparse: what counts is what it takes of the disk.
      resolve({ ...memory, file: statSync(join(data, "store.lmdb")).blocks * 512 })
    })
    server.send("measure")
  })

/** Each source stays far below the limit of requests for one. */
const addressOf = (i) => {
  const source = i % sources
  return `10.${(source >> 16) & 255}.${(source >> 8) & 255}.${source & 255}`
}

const post = (i, body, headers = "") =>
  `POST /oauth/token HTTP/1.1\r\nHost: localhost:${port}\r\nX-Forwarded-For: ${addressOf(i)}\r\n` +
  `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n${headers}\r\n${body}`

const unknownClient = (i) =>
  post(i, `grant_type=client_credentials&client_id=unknown-${i}-${"x".repeat(i % 512)}&client_secret=wrong`)

const challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
const longState = "s".repeat(4_000)

const authorization = (i, { clientId }) =>
  `GET /oauth/authorize?client_id=${clientId}&redirect_uri=${encodeURIComponent(callback)}&response_type=code` +
  `&code_challenge=${challenge}&code_challenge_method=S256&scope=read&state=${longState} HTTP/1.1\r\n` +
  `Host: localhost:${port}\r\nX-Forwarded-For: ${addressOf(i)}\r\n\r\n`

const proofKey = generateKeyPairSync("ec", { namedCurve: "P-256" })
const proofHeader = Buffer.from(
  JSON.stringify({ typ: "dpop+jwt", alg: "ES256", jwk: proofKey.publicKey.export({ format: "jwk" }) })
).toString("base64url")

const proof = (i, { clientId }) => {
  const claims = {
    jti: `p${i}`,
    htm: "POST",
    htu: `${issuer}/oauth/token`,
    iat: Math.floor(Date.now() / 1_000)
  }
  const signed = `${proofHeader}.${Buffer.from(JSON.stringify(claims)).toString("base64url")}`
  const signature = sign("sha256", Buffer.from(signed), {
    key: proofKey.privateKey,
    dsaEncoding: "ieee-p1363"
  })
  const form =
    `grant_type=authorization_code&client_id=${clientId}&code=c${i}` +
    `&redirect_uri=${encodeURIComponent(callback)}&code_verifier=${"v".repeat(43)}`
  return post(i, form, `DPoP: ${signed}.${signature.toString("base64url")}\r\n`)
}

const kinds = [
  { name: "unknown clients", request: unknownClient },
  { name: "authorization requests", request: authorization },
  { name: "proofs", request: proof }
]

const inMebibytes = (bytes) => (bytes / mebibyte).toFixed(1).padStart(7)

const run = async (server) => {
  await administer("/admin/resources", {
    slug: "strangers",
    uri: "https://api.example.com",
    backend_kind: "mint",
    scopes: [{ name: "read" }]
  })
  const { client_id: clientId } = await administer("/admin/clients", {
    client_name: "Public",
    redirect_uris: [callback],
    token_endpoint_auth_method: "none"
  })
  const start = await measured(server)
  const statuses = kinds.map(() => ({}))
  const growth = []
  const pool = Array.from({ length: connections }, () => new Connection(port))
  let sent = 0
  const sendUntil = async (connection, end) => {
    while (sent < end) {
      const i = sent++
      const kind = i % kinds.length
      const status = await connection.ask(kinds[kind].request(i, { clientId }))
      statuses[kind][status] = (statuses[kind][status] ?? 0) + 1
    }
  }
  console.log(`${count} requests from ${sources} sources; growth over the start, in MiB:`)
  console.log("     sent   req/s    heap    file     rss")
  for (let tenth = 1; tenth <= 10; tenth++) {
    const before = { sent, atMs: performance.now() }
    await Promise.all(pool.map((connection) => sendUntil(connection, Math.round((count * tenth) / 10))))
    const perSecond = ((sent - before.sent) * 1_000) / (performance.now() - before.atMs)
    const now = await measured(server)
    growth.push({ heap: now.heapUsed - start.heapUsed, file: now.file - start.file })
    const { heap, file } = growth.at(-1)
    console.log(
      `${String(sent).padStart(9)} ${perSecond.toFixed(0).padStart(7)} ${inMebibytes(heap)} ${inMebibytes(file)} ${inMebibytes(now.rss - start.rss)}`
    )
  }
  for (const connection of pool) connection.close()
  for (const [at, { name }] of kinds.entries()) console.log(`${name}: ${JSON.stringify(statuses[at])}`)
  return growth
}

const faultsOf = (growth) => {
  const faults = []
  for (const [name, max] of [
    ["heap", heapMax],
    ["file", fileMax]
  ]) {
    const most = Math.max(...growth.map((tenth) => tenth[name]))
    const lastHalf = growth.at(-1)[name] - growth[4][name]
    if (most > max) faults.push(`${name}: ${inMebibytes(most)} MiB, ${inMebibytes(max)} permitted`)
    if (lastHalf > flatPart * max)
      faults.push(`${name}: grows by ${inMebibytes(lastHalf)} MiB in the last half`)
  }
  return faults
}

const server = await startServer()
try {
  const faults = faultsOf(await run(server))
  for (const fault of faults) console.error(fault)
  if (faults.length === 0) console.log("bounded, and flat over the last half")
  process.exitCode = faults.length === 0 ? 0 : 1
} finally {
  server.removeAllListeners("exit")
  const ended = new Promise((resolve) => server.once("exit", resolve))
  server.kill("SIGTERM")
  await ended
  rmSync(data, { recursive: true, force: true })
}
