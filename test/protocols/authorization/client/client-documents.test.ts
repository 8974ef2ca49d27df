/** Authorization section 11: identifiers, documents, cache. Local servers count what reaches them. */
import { gzipSync } from "node:zlib"
import { afterEach, describe, expect, it } from "vitest"
import {
  ClientDocuments,
  describedBy,
  documentUrlFault
} from "../../../../protocols/authorization/client/client-documents.ts"
import { Documents, freshMs } from "../../../../protocols/authorization/upstream/document-cache.ts"
import { isProblem, type Problem, wordingOf } from "../../../../protocols/authorization/problems.ts"
import { Clients, type Client } from "../../../../protocols/authorization/records.ts"
import { SafeFetch, type Limits } from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import { resolved, Upstream, World, type Heard, type Said } from "../upstream/outside.ts"

const open: Array<Upstream> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const upstream = async (
  answer: (heard: Heard, server: Upstream) => Said | Promise<Said>
): Promise<Upstream> => {
  const server: Upstream = await Upstream.open((heard) => answer(heard, server))
  open.push(server)
  return server
}

const local: SettingsInput = { clientDocuments: { requireHttps: false, allowPrivateAddresses: true } }

const documentsOf = (
  settings: SettingsInput = local,
  addresses?: (host: string) => ReadonlyArray<string>,
  limits?: Partial<Limits>
) => {
  const world = new World(settings, addresses)
  const service = new ClientDocuments(world.authority, new SafeFetch(world.authority.lookup, limits))
  const resolve = (url: string, source?: string): Promise<Client | Problem> =>
    resolved(service.resolve(url, source))
  return { world, service, documents: { resolve, counts: service.counts } }
}

const documentAt = (url: string, more: object = {}): Record<string, unknown> => ({
  client_id: url,
  client_name: "Example",
  redirect_uris: ["https://app.example/cb"],
  ...more
})

const told = (outcome: Client | Problem): string =>
  isProblem(outcome)
    ? `${wordingOf(outcome).status} ${wordingOf(outcome).error}: ${outcome.description}`
    : `client ${outcome.clientName}`

const refused = (rule: string): string => `401 invalid_client: client authentication failed: ${rule}`

describe("identifier", () => {
  const forbidden = [
    "https://a.example",
    "https://a.example/",
    "https://a.example?x",
    "https://a.example/a/../b",
    "https://a.example/..",
    "https://a.example/./x",
    "https://a.example/%2e%2e/x",
    "https://a.example/.%2E/x",
    "https://a.example/%2e",
    "https://a.example//x",
    "https://a.example/x//y",
    "https:///x",
    "https:////x",
    "https://a.example/x#",
    "https://a.example/x#y",
    "https://user@a.example/x",
    "https://u:p@a.example/x",
    "https://@a.example/x",
    `https://a.example/${"x".repeat(2_048)}`,
    "https://bücher.example/x",
    "https://a.example/ä",
    "https://a.example\\x",
    "https://a.example/\\..\\x",
    "https://a.example/x y",
    "https://a.example/x\n",
    "https://a.example:99999/x",
    "https://127.0.0.1/x",
    "https://2130706433/x",
    "https://0177.0.0.1/x",
    "https://0x7f.1/x",
    "https://[::1]/x",
    "https://[::ffff:127.0.0.1]/x",
    "https://8.8.8.8/x",
    "https://a .example/x",
    "HTTPS://a.example/x"
  ]
  it.each(forbidden)("AS-127 AS-130 refused before any fetch: %s", async (url) => {
    const { world, documents } = documentsOf({})
    const outcome = await documents.resolve(url, "192.0.2.1")
    expect(told(outcome)).toMatch(/^401 invalid_client: client authentication failed: the URL/)
    expect(world.lookups).toEqual([])
  })
  it.each([
    "https://a.example/x",
    "https://a.example/x/",
    "https://a.example/x?y=../z",
    "https://a.example:8443/x",
    "https://xn--bcher-kva.example/x",
    "https://a.example/...",
    "https://a.example/.well-known/x"
  ])("allowed: %s", (url) => expect(documentUrlFault(url, { allowPrivateAddresses: false })).toBeUndefined())
  it("whatever is put together: what passes is what would be fetched, at a name", () => {
    const pieces = [
      "https://",
      "http://",
      "a.example",
      "127.0.0.1",
      "0x7f.1",
      "[::1]",
      "user@",
      ":8443",
      ":22",
      "/",
      "//",
      "x",
      ".",
      "..",
      "%2e",
      "%2E.",
      "\\",
      "?",
      "#",
      "@",
      "\t",
      " ",
      "é",
      "%00",
      "1",
      ";"
    ]
    let seed = 7
    let passed = 0
    const draw = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
      return Math.floor(seed / 65_536) % below
    }
    for (let round = 0; round < 30_000; round++) {
      const id = `https://${round % 2 === 0 ? "a.example/" : ""}${Array.from({ length: 1 + draw(6) }, () => pieces[draw(pieces.length)]).join("")}`
      if (documentUrlFault(id, { allowPrivateAddresses: false }) !== undefined) continue
      passed++
      const url = new URL(id)
      expect(
        [url.href.slice(url.origin.length), /^\d|^\[/.test(url.hostname), url.username, url.hash],
        id
      ).toEqual([id.slice(id.indexOf("/", 8)), false, "", ""])
    }
    expect(passed).toBeGreaterThan(500)
  })
  it("an address as host where private addresses are allowed", () =>
    expect(documentUrlFault("http://127.0.0.1:3000/x", { allowPrivateAddresses: true })).toBeUndefined())
})

describe("where it must not go", () => {
  it.each(
    [
      ["127.0.0.1"],
      ["10.1.2.3"],
      ["::ffff:127.0.0.1"],
      ["64:ff9b::7f00:1"],
      ["93.184.216.34", "127.0.0.1"]
    ].map((all) => [all.join(" and "), all] as const)
  )("AS-130 a host that resolves to %s: no connection", async (_name, all) => {
    const server = await upstream(() => ({ body: {} }))
    const { documents } = documentsOf({ clientDocuments: { requireHttps: false } }, () => all)
    expect(told(await documents.resolve(server.at("/client", "inside.example")))).toBe(
      refused("the document could not be fetched")
    )
    expect(server.connections).toBe(0)
  })
  it("A-11: a name that resolves inside reads like one that resolves nowhere, or where nothing listens", async () => {
    const server = await upstream(() => ({ body: {} }))
    const http = { clientDocuments: { requireHttps: false } }
    const said = async (hosts: () => ReadonlyArray<string>, url: string) =>
      told(await documentsOf(http, hosts).documents.resolve(url))
    const words = [
      await said(() => ["10.1.2.3"], server.at("/client", "inside.example")),
      await said(() => [], server.at("/client", "nowhere.example")),
      await said(
        () => {
          throw new Error("ENOTFOUND")
        },
        server.at("/client", "nowhere.example")
      )
    ]
    const { documents } = documentsOf()
    words.push(told(await documents.resolve("http://127.0.0.1:1025/client")))
    expect(new Set(words)).toEqual(new Set([refused("the document could not be fetched")]))
  })
})

describe("document", () => {
  const url = "https://a.example/client"
  it("what it gives", () => {
    expect(describedBy(url, documentAt(url))).toEqual({
      redirectUris: ["https://app.example/cb"],
      clientName: "Example",
      grantTypes: ["authorization_code", "refresh_token"],
      responseTypes: ["code"],
      applicationType: "web"
    })
    expect(
      describedBy(
        url,
        documentAt(url, {
          client_name: " Two ",
          redirect_uris: ["http://127.0.0.1:1/cb", "https://other.example/"],
          application_type: "native",
          token_endpoint_auth_method: "none",
          response_types: ["code", "id_token"],
          grant_types: ["implicit", "urn:ietf:params:oauth:grant-type:jwt-bearer", "urn:x"]
        })
      )
    ).toEqual({
      redirectUris: ["http://127.0.0.1:1/cb", "https://other.example/"],
      clientName: "Two",
      grantTypes: ["urn:ietf:params:oauth:grant-type:jwt-bearer"],
      responseTypes: [],
      applicationType: "native"
    })
  })
  const wrong: ReadonlyArray<readonly [object, string]> = [
    [{ client_id: `${url}/` }, "client_id"],
    [{ client_id: "https://A.example/client" }, "client_id"],
    [{ client_id: undefined }, "client_id"],
    [{ client_name: undefined }, "client_name"],
    [{ client_name: " " }, "client_name"],
    [{ client_name: 7 }, "client_name"],
    [{ client_name: "a\u0007" }, "client_name"],
    [{ client_name: "a\u202eb" }, "client_name"],
    [{ client_name: "x".repeat(201) }, "client_name"],
    [{ redirect_uris: undefined }, "redirect_uris"],
    [{ redirect_uris: [] }, "redirect_uris"],
    [{ redirect_uris: "https://a/cb" }, "redirect_uris"],
    [{ redirect_uris: [1] }, "redirect_uris"],
    [{ redirect_uris: ["javascript:alert(1)"] }, "redirect_uris"],
    [{ redirect_uris: ["http://app.example/cb"] }, "redirect_uris"],
    [{ redirect_uris: ["https://app.example/cb#x"] }, "redirect_uris"],
    [
      { redirect_uris: Array.from({ length: 21 }, (_, index) => `https://a.example/${index}`) },
      "redirect_uris"
    ],
    [{ token_endpoint_auth_method: "client_secret_post" }, "token_endpoint_auth_method"],
    [{ token_endpoint_auth_method: "private_key_jwt" }, "token_endpoint_auth_method"],
    [{ token_endpoint_auth_method: null }, "token_endpoint_auth_method"],
    [{ client_secret: "x" }, "client_secret"],
    [{ client_secret: null }, "client_secret"],
    [{ grant_types: ["client_credentials"] }, "grant_types"],
    [
      { grant_types: ["authorization_code", "urn:ietf:params:oauth:grant-type:token-exchange"] },
      "grant_types"
    ],
    [{ grant_types: "authorization_code" }, "grant_types"],
    [{ grant_types: ["implicit"] }, "grant_types"],
    [{ response_types: ["token"] }, "response_types"],
    [{ response_types: "code" }, "response_types"]
  ]
  it.each(wrong.map(([more, name]) => [JSON.stringify(more), name, more] as const))(
    "AS-128 %s: names %s",
    async (_text, name, more) => {
      expect(describedBy(url, documentAt(url, more))).toMatch(new RegExp(`^${name}`))
      const server = await upstream((_, { port }) => ({
        body: JSON.stringify(documentAt(`http://127.0.0.1:${port}/client`, more))
      }))
      const { documents } = documentsOf()
      const outcome = told(await documents.resolve(server.at("/client")))
      expect(outcome).toContain(refused(name))
      expect(outcome).not.toContain("Example")
    }
  )
  it("names count code points", () =>
    expect(
      [200, 201].map((count) => typeof describedBy(url, documentAt(url, { client_name: "𝄞".repeat(count) })))
    ).toEqual(["object", "string"]))
})

describe("fetched", () => {
  it("a good document is a public client, with the server's scope ceiling", async () => {
    const server = await upstream((_, self) => ({
      body: documentAt(self.at("/c?x=1")),
      headers: { "Content-Type": "application/json; charset=utf-8" }
    }))
    const { documents, world } = documentsOf({ ...local, defaultClientScope: "files:read files:write" })
    const url = server.at("/c?x=1")
    expect(await documents.resolve(url)).toEqual({
      clientId: url,
      secretHash: null,
      previousHash: null,
      previousUntilMs: 0,
      redirectUris: ["https://app.example/cb"],
      clientName: "Example",
      authMethod: "none",
      grantTypes: ["authorization_code", "refresh_token"],
      responseTypes: ["code"],
      applicationType: "web",
      scopes: ["files:read", "files:write"],
      agent: false,
      agentDescription: "",
      status: "active",
      source: "cimd",
      documentUrl: url,
      issuedMs: world.nowMs,
      updatedMs: world.nowMs,
      used: false
    })
    expect(server.heard[0]).toMatchObject({
      method: "GET",
      path: "/c?x=1",
      headers: { accept: "application/json", "user-agent": "authserver" }
    })
    expect(server.heard[0]!.headers).not.toHaveProperty("cookie")
  })
  const big = (bytes: number, url: string): string => {
    const text = JSON.stringify(documentAt(url, { padding: "" }))
    return text.replace('"padding":""', `"padding":"${"x".repeat(bytes - text.length)}"`)
  }
  // A GiB when decoded, a MiB as sent.
  const bomb = Buffer.concat(Array<Buffer>(64).fill(gzipSync(Buffer.alloc(16 * 1_048_576))))
  it("AS-129 a document of 1 MiB is taken, one byte more is not; a gzip bomb is left at the limit", async () => {
    const gzipped = { "Content-Encoding": "gzip" }
    const server = await upstream(({ path }, self) => {
      if (path === "/exact") return { body: big(1_048_576, self.at(path)) }
      if (path === "/over") return { body: big(1_048_577, self.at(path)) }
      const body = path === "/packed" ? gzipSync(big(1_048_576, self.at(path))) : bomb
      return { body, headers: gzipped }
    })
    const { documents } = documentsOf()
    expect(
      await Promise.all(
        ["/exact", "/packed", "/over", "/bomb"].map(async (path) =>
          told(await documents.resolve(server.at(path)))
        )
      )
    ).toEqual([
      "client Example",
      "client Example",
      refused("the response is too large"),
      refused("the response is too large")
    ])
  })
  it("AS-129 HTML, a redirect to a good document, other statuses, what is no JSON object", async () => {
    const good = await upstream((_, self) => ({ body: documentAt(self.at("/good")) }))
    const said: Readonly<Record<string, Said>> = {
      "/html": { body: "<!doctype html>", headers: { "Content-Type": "text/html" } },
      "/moved": { status: 301, headers: { Location: good.at("/good") } },
      "/gone": { status: 404, body: {} },
      "/created": { status: 201, body: {} },
      "/list": { body: "[]" },
      "/text": { body: "{" },
      "/twice": { body: '{"client_id":"a","client_id":"b"}' },
      "/latin": { body: Buffer.from([0x7b, 0xff, 0x7d]) },
      "/deep": { body: `{"a":${"[".repeat(17)}${"]".repeat(17)}}` },
      "/abyss": { body: `{"a":${"[".repeat(500_000)}${"]".repeat(500_000)}}` }
    }
    const server = await upstream(({ path }) => said[path]!)
    const { documents } = documentsOf()
    const outcomes = await Promise.all(
      Object.keys(said).map(async (path) => [path, told(await documents.resolve(server.at(path)))] as const)
    )
    expect(Object.fromEntries(outcomes)).toEqual({
      "/html": refused("the document is not served as JSON"),
      "/moved": refused("the host redirects"),
      "/gone": refused("the host answered with status 404"),
      "/created": refused("the host answered with status 201"),
      "/list": refused("the document is not a JSON object"),
      "/text": refused("the document is not JSON"),
      "/twice": refused("a JSON member appears twice"),
      "/latin": refused("the document is not UTF-8"),
      "/deep": refused("the JSON is nested too deep"),
      "/abyss": refused("the JSON holds more than 20000 values")
    })
    expect(good.connections).toBe(0)
  })
  it("AS-129 a body that never ends is left when the time is up", async () => {
    const server = await upstream(() => ({ body: " ", hangs: true }))
    const { documents } = documentsOf({ clientDocuments: { ...local.clientDocuments!, fetchTimeoutMs: 30 } })
    expect(told(await documents.resolve(server.at("/endless")))).toBe(
      refused("the document could not be fetched")
    )
  })
  it("a document may not name what only the server decides", async () => {
    const server = await upstream((_, self) => ({
      body: documentAt(self.at("/c"), {
        status: "active",
        agent: true,
        scope: "admin",
        registration_source: "admin",
        constructor: { x: 1 }
      })
    }))
    const { documents } = documentsOf()
    expect(await documents.resolve(server.at("/c"))).toMatchObject({
      agent: false,
      scopes: [],
      source: "cimd"
    })
  })
})

describe("cache", () => {
  const counted = async (
    headers: Readonly<Record<string, string>>,
    settings: SettingsInput = local
  ): Promise<{
    readonly server: Upstream
    readonly world: World
    readonly resolve: () => Promise<string>
    readonly documents: ReturnType<typeof documentsOf>["documents"]
  }> => {
    const server = await upstream((_, self) => ({ body: documentAt(self.at("/c")), headers }))
    const { documents, world } = documentsOf(settings)
    return { server, world, documents, resolve: async () => told(await documents.resolve(server.at("/c"))) }
  }
  it("AS-131 100 at once with one new URL: one fetch", async () => {
    const { server, documents } = await counted({ "Cache-Control": "no-store" })
    const all = await Promise.all(
      Array.from({ length: 100 }, () => documents.resolve(server.at("/c"), "192.0.2.1"))
    )
    expect([new Set(all.map(told)), server.heard.length]).toEqual([new Set(["client Example"]), 1])
  })
  it("AS-132 a failing URL asked 100 times in 30 s: one fetch; then another", async () => {
    const server = await upstream(() => ({ status: 500 }))
    const { documents, world } = documentsOf()
    for (let call = 0; call < 100; call++) {
      expect(told(await documents.resolve(server.at("/c"), "192.0.2.1"))).toBe(
        refused("the host answered with status 500")
      )
      world.nowMs += 299
    }
    expect(server.heard.length).toBe(1)
    world.nowMs += 30_000
    await documents.resolve(server.at("/c"))
    expect(server.heard.length).toBe(2)
  })
  it("AS-133 max-age over the ceiling: anew after cache_ttl", async () => {
    const { server, world, resolve } = await counted({ "Cache-Control": "public, max-age=86400" })
    await resolve()
    world.nowMs += 3_599_999
    await resolve()
    expect(server.heard.length).toBe(1)
    world.nowMs += 1
    await resolve()
    expect(server.heard.length).toBe(2)
  })
  it.each(["max-age=0", "no-cache", "max-age=600, no-cache", "s-maxage=5, max-age=600"])(
    "AS-133 %s: not before the floor",
    async (control) => {
      const { server, world, resolve } = await counted({ "Cache-Control": control })
      await resolve()
      world.nowMs += 29_999
      await resolve()
      expect(server.heard.length).toBe(1)
      world.nowMs += 1
      await resolve()
      expect(server.heard.length).toBe(2)
    }
  )
  it("AS-133 no-store: each leg fetches, and a known URL is not a new one", async () => {
    const { server, documents, world } = await counted({ "Cache-Control": "no-store, max-age=600" })
    for (let leg = 1; leg <= 25; leg++) {
      expect(told(await documents.resolve(server.at("/c"), "192.0.2.1"))).toBe("client Example")
      world.nowMs++
    }
    expect(server.heard.length).toBe(25)
  })
  it("how long a response says it is fresh", () => {
    const at = Date.UTC(2026, 0, 1)
    const hour = 3_600_000
    const of = (headers: Readonly<Record<string, string>>): number | undefined => freshMs(headers, hour, at)
    expect([
      of({}),
      of({ "cache-control": "max-age=60" }),
      of({ "cache-control": 'MAX-AGE="90"' }),
      of({ "cache-control": "max-age=60, s-maxage=120" }),
      of({ "cache-control": "max-age=x" }),
      of({ "cache-control": "private" })
    ]).toEqual([hour, 60_000, 90_000, 120_000, hour, hour])
    expect([
      of({ expires: new Date(at + 60_000).toUTCString() }),
      of({ expires: new Date(at + 60_000).toUTCString(), date: new Date(at - 40_000).toUTCString() }),
      of({ expires: "0" }),
      of({ expires: new Date(at - 1).toUTCString() }),
      of({ "cache-control": "no-store" })
    ]).toEqual([60_000, 100_000, 30_000, 30_000, undefined])
  })
  it("a stale document is not used when it cannot be fetched again", async () => {
    let status = 200
    const server = await upstream((_, self) => ({ status, body: documentAt(self.at("/c")) }))
    const { documents, world } = documentsOf()
    expect(told(await documents.resolve(server.at("/c")))).toBe("client Example")
    status = 503
    world.nowMs += 3_600_000
    expect(told(await documents.resolve(server.at("/c")))).toBe(refused("the host answered with status 503"))
    status = 200
    world.nowMs += 30_000
    expect(told(await documents.resolve(server.at("/c")))).toBe("client Example")
  })
  it("bounded: the least recently used goes first, by number and by bytes", () => {
    const cacheLifetime = (
      value: string,
      bytes = 1
    ): { value: string; firstMs: number; freshUntilMs: number; bytes: number } => ({
      value,
      firstMs: 0,
      freshUntilMs: 1,
      bytes
    })
    const few = new Documents<string>({ entriesMax: 2 })
    few.put("a", cacheLifetime("1"))
    few.put("b", cacheLifetime("2"))
    few.get("a")
    few.put("c", cacheLifetime("3"))
    expect(["a", "b", "c"].map((name) => few.get(name)?.value)).toEqual(["1", undefined, "3"])
    const small = new Documents<string>({ bytesMax: 10 })
    small.put("a", cacheLifetime("1", 4))
    small.put("b", cacheLifetime("2", 4))
    small.put("b", cacheLifetime("2", 3))
    small.put("c", cacheLifetime("3", 4))
    expect(["a", "b", "c"].map((name) => small.get(name)?.value)).toEqual([undefined, "2", "3"])
    small.put("d", cacheLifetime("4", 100))
    expect(small.get("d")).toBeUndefined()
  })
  it("20 new URLs per source and minute; the 21st waits, known ones and other sources do not", async () => {
    const server = await upstream(({ path }, self) => ({ body: documentAt(self.at(path)) }))
    const { documents, world } = documentsOf()
    const at = (path: string, source: string): Promise<string> =>
      documents.resolve(server.at(path), source).then(told)
    for (let index = 0; index < 20; index++)
      expect(await at(`/${index}`, "2001:db8:1:2::1")).toBe("client Example")
    const twentyFirst = await documents.resolve(server.at("/20"), "2001:db8:1:2:ffff::9")
    expect(told(twentyFirst)).toBe("429 slow_down: too many requests")
    expect(
      Number(wordingOf(twentyFirst as Problem).headers.find(([name]) => name === "Retry-After")![1])
    ).toBeGreaterThanOrEqual(1)
    expect([
      await at("/3", "2001:db8:1:2::1"),
      await at("/20", "2001:db8:1:3::1"),
      server.heard.length
    ]).toEqual(["client Example", "client Example", 21])
    world.nowMs += 60_000
    expect(await at("/21", "2001:db8:1:2::1")).toBe("client Example")
  })
  it("no place for another fetch: 503, and nothing is remembered of it", async () => {
    let release: () => void = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    let arrived: () => void = () => {}
    const first = new Promise<void>((resolve) => {
      arrived = resolve
    })
    const server = await upstream(async ({ path }, self) => {
      arrived()
      await gate
      return { body: documentAt(self.at(path)) }
    })
    const { documents } = documentsOf(local, undefined, { perHostMax: 1, waitMs: 1 })
    const flying = documents.resolve(server.at("/1"))
    await first
    expect(told(await documents.resolve(server.at("/2")))).toBe(
      "503 server_error: too many documents are being fetched"
    )
    release()
    expect([told(await flying), told(await documents.resolve(server.at("/2")))]).toEqual([
      "client Example",
      "client Example"
    ])
  })
  it("a suspended client stays suspended, and keeps what the server knows of it", async () => {
    const server = await upstream((_, self) => ({
      body: documentAt(self.at("/c"), { client_name: "New name" })
    }))
    const { documents, world } = documentsOf()
    const url = server.at("/c")
    const client = (await documents.resolve(url)) as Client
    await world.authority.books.write([
      Clients.put([url], { ...client, clientName: "Old name", status: "suspended", issuedMs: 5, used: true })
    ])
    expect(await documents.resolve(url)).toMatchObject({
      clientName: "New name",
      status: "suspended",
      issuedMs: 5,
      used: true
    })
    world.nowMs += 3_600_000
    expect(await documents.resolve(url)).toMatchObject({ status: "suspended", issuedMs: 5 })
  })
  it("fetches are counted by outcome", async () => {
    const server = await upstream(({ path }, self) => {
      if (path === "/c") return { body: documentAt(self.at("/c")) }
      return path === "/d" ? { body: {} } : { status: 302 }
    })
    const { documents } = documentsOf()
    for (const path of ["/c", "/d", "/e", "/c"]) await documents.resolve(server.at(path))
    expect(Object.fromEntries(documents.counts)).toEqual({ ok: 1, document: 1, redirect: 1 })
  })
})
