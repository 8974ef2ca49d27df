/** Authorization section 11.2, rule by rule. */
import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { createServer as createTlsServer } from "node:https"
import { createServer as createTcpServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createSecureContext } from "node:tls"
import { gzipSync } from "node:zlib"
import { Effect, Fiber } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { isBlockedAddress, sourceOf } from "../../../../protocols/shared/addresses.ts"
import {
  FetchFault,
  isJson,
  SafeFetch,
  type Fetched,
  type Limits,
  type Outbound
} from "../../../../protocols/authorization/upstream/safe-fetch.ts"
import { buildChild, startChild } from "../../../child.ts"
import { outcomeOf, Upstream, World, type Said } from "./outside.ts"

const open: Array<{ close(): unknown }> = []

afterEach(async () => {
  for (const server of open.splice(0)) await server.close()
})

const upstream = async (answer: Parameters<typeof Upstream.open>[0]): Promise<Upstream> => {
  const server = await Upstream.open(answer)
  open.push(server)
  return server
}

const outbound = (url: string, more: Partial<Outbound> = {}): Outbound => ({
  url,
  bodyBytesMax: 1_000,
  timeoutMs: 5_000,
  allowPrivateAddresses: true,
  allowHttp: true,
  ...more
})

const client = (
  addresses?: (host: string, call: number) => ReadonlyArray<string>,
  limits?: Partial<Limits>
): { readonly world: World; readonly fetch: (more: Outbound) => Promise<Fetched | FetchFault> } => {
  const world = new World({}, addresses)
  const fetcher = new SafeFetch(world.authority.lookup, limits)
  return { world, fetch: (more) => outcomeOf(fetcher.fetch(more)) }
}

const reason = (outcome: Fetched | FetchFault): string =>
  outcome instanceof FetchFault ? outcome.reason : `status ${outcome.status}`

const body = (outcome: Fetched | FetchFault): string =>
  outcome instanceof FetchFault ? outcome.reason : Buffer.from(outcome.body).toString()

describe("ranges", () => {
  it.each([
    "0.1.2.3",
    "10.0.0.1",
    "100.64.0.1",
    "100.127.255.255",
    "127.0.0.1",
    "127.9.9.9",
    "169.254.169.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::FFFF:10.0.0.1",
    "64:ff9b::127.0.0.1",
    "64:ff9b::a00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2002:c0a8:101::",
    "100::1",
    "2001::1",
    "2001:1ff::1",
    "2001:db8::1",
    "fc00::1",
    "fdff::1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "ff02::1",
    "localhost",
    "",
    "127.1"
  ])("blocked: %s", (address) => expect(isBlockedAddress(address)).toBe(true))
  it.each([
    "1.1.1.1",
    "8.8.8.8",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.0.1",
    "172.32.0.1",
    "192.0.1.1",
    "192.169.0.1",
    "198.20.0.1",
    "223.255.255.255",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2606:4700::1111",
    "101::1"
  ])("not blocked: %s", (address) => expect(isBlockedAddress(address)).toBe(false))
  it("callers are one by address, IPv6 by /64", () => {
    expect(
      ["192.0.2.1", "2001:db8:1:2:3::4", "2001:db8:1:2::9", "2001:db8:1:3::", "::ffff:192.0.2.1"].map(
        sourceOf
      )
    ).toEqual(["192.0.2.1", "2001:db8:1:2::/64", "2001:db8:1:2::/64", "2001:db8:1:3::/64", "192.0.2.1"])
  })
})

describe("where it connects", () => {
  const forms = [
    ["127.0.0.1"],
    ["::1"],
    ["::ffff:127.0.0.1"],
    ["64:ff9b::7f00:1"],
    ["0.0.0.0"],
    ["::"],
    ["169.254.169.254"],
    ["10.0.0.1"],
    ["8.8.8.8", "127.0.0.1"],
    ["2606:4700::1111", "::1"]
  ]
  it.each(forms.map((all) => [all.join(" and "), all] as const))(
    "a host that resolves to %s gets no connection",
    async (_name, all) => {
      const server = await upstream(() => ({ body: {} }))
      const { fetch, world } = client(() => all)
      expect(
        reason(await fetch(outbound(server.at("/x", "inside.example"), { allowPrivateAddresses: false })))
      ).toBe("blocked")
      expect([server.connections, world.lookups]).toEqual([0, ["inside.example"]])
    }
  )
  it.each([
    "127.0.0.1",
    "2130706433",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "127.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "0"
  ])("an address as host, %s, gets no connection and no look-up", async (host) => {
    const server = await upstream(() => ({ body: {} }))
    const { fetch, world } = client()
    expect(reason(await fetch(outbound(server.at("/x", host), { allowPrivateAddresses: false })))).toBe(
      "blocked"
    )
    expect([server.connections, world.lookups]).toEqual([0, []])
  })
  it("one look-up, and the connection goes to what it said: a second answer is never asked for", async () => {
    const server = await upstream(() => ({ body: '"here"' }))
    const { fetch, world } = client((_host, call) => (call === 1 ? ["127.0.0.1"] : ["192.0.2.1"]))
    expect(body(await fetch(outbound(server.at("/x?y=1", "rebinding.example"))))).toBe('"here"')
    expect(world.lookups).toEqual(["rebinding.example"])
    expect(server.heard[0]).toMatchObject({
      method: "GET",
      path: "/x?y=1",
      headers: { host: `rebinding.example:${server.port}` }
    })
  })
  it("no host, no resolution, no listener", async () => {
    expect(reason(await client(() => []).fetch(outbound("http://nowhere.example:8080/")))).toBe("lookup")
    expect(
      reason(
        await client(() => {
          throw new Error("NXDOMAIN")
        }).fetch(outbound("http://nowhere.example:8080/"))
      )
    ).toBe("lookup")
    const closed = await Upstream.open(() => ({}))
    const url = closed.at("/")
    await closed.close()
    expect(reason(await client().fetch(outbound(url)))).toBe("connect")
  })
  it.each([
    "https://a.example:22/",
    "https://a.example:80/",
    "http://a.example:25/",
    "https://a.example:1023/",
    "https://a.example:0/"
  ])("port rule, also where private addresses are allowed: %s", async (url) => {
    const { fetch, world } = client()
    expect(reason(await fetch(outbound(url)))).toBe("port")
    expect(world.lookups).toEqual([])
  })
  it.each([
    "ftp://a.example/",
    "file:///etc/passwd",
    "nonsense",
    "https://user@a.example/",
    "https://a:b@a.example/"
  ])("no URL for it: %s", async (url) => expect(reason(await client().fetch(outbound(url)))).toBe("url"))
  it("http only where it is allowed", async () =>
    expect(reason(await client().fetch(outbound("http://a.example:8080/", { allowHttp: false })))).toBe(
      "url"
    ))
  it("TLS asks for the host by name, and is content with no certificate but a trusted one of that name", async () => {
    const folder = mkdtempSync(join(tmpdir(), "troupe-tls-"))
    const keyFile = join(folder, "key.pem")
    const certFile = join(folder, "cert.pem")
    execFileSync(
      "openssl",
      [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=named.example",
        "-addext",
        "subjectAltName=DNS:named.example",
        "-keyout",
        keyFile,
        "-out",
        certFile
      ],
      { stdio: "ignore" }
    )
    const names: Array<string> = []
    const hosts: Array<string | undefined> = []
    const pair = { key: readFileSync(keyFile), cert: readFileSync(certFile) }
    const server = createTlsServer(
      {
        ...pair,
        SNICallback: (name, done) => {
          names.push(name)
          done(null, createSecureContext(pair))
        }
      },
      ({ headers }, response) => {
        hosts.push(headers.host)
        response.end("{}")
      }
    )
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    open.push({ close: () => new Promise((resolve) => server.close(resolve)) })
    const { port } = server.address() as AddressInfo
    const program = await buildChild("test/protocols/authorization/upstream/tls-child.ts")
    try {
      const trusting = startChild(program, [String(port), "named.example", "other.example"], {
        NODE_EXTRA_CA_CERTS: certFile
      })
      await trusting.line(/^done/)
      expect(trusting.lines).toEqual(["named.example 200 {}", "other.example tls", "done"])
      expect([names, hosts]).toEqual([["named.example", "other.example"], [`named.example:${port}`]])
      // Not to be turned off from outside.
      const careless = startChild(program, [String(port), "named.example"], {
        NODE_TLS_REJECT_UNAUTHORIZED: "0",
        NODE_NO_WARNINGS: "1"
      })
      await careless.line(/^done/)
      expect([careless.lines, hosts.length]).toEqual([["named.example tls", "done"], 1])
    } finally {
      rmSync(folder, { recursive: true })
      rmSync(dirname(program), { recursive: true })
    }
  })
  it("proxy variables are ignored", async () => {
    const proxy = await upstream(() => ({ body: '"proxy"' }))
    const server = await upstream(() => ({ body: '"direct"' }))
    const names = ["http_proxy", "HTTP_PROXY", "all_proxy", "NODE_USE_ENV_PROXY"]
    const before = names.map((name) => process.env[name])
    for (const name of names) process.env[name] = name === "NODE_USE_ENV_PROXY" ? "1" : proxy.at("/")
    try {
      expect(body(await client().fetch(outbound(server.at("/"))))).toBe('"direct"')
    } finally {
      names.forEach((name, index) => {
        if (before[index] === undefined) delete process.env[name]
        else process.env[name] = before[index]
      })
    }
    expect(proxy.connections).toBe(0)
  })
})

describe("what it sends and takes", () => {
  it("a GET carries no cookie and no credentials; a form goes by POST", async () => {
    const server = await upstream(() => ({ body: {} }))
    const { fetch } = client()
    await fetch(outbound(server.at("/a")))
    await fetch(outbound(server.at("/b"), { form: new URLSearchParams({ a: "1 2" }) }))
    expect(server.heard[0]!.headers).toEqual({
      accept: "application/json",
      "accept-encoding": "gzip, identity",
      "user-agent": "authserver",
      connection: "close",
      host: `127.0.0.1:${server.port}`
    })
    expect(server.heard[1]).toMatchObject({
      method: "POST",
      body: "a=1+2",
      headers: { "content-type": "application/x-www-form-urlencoded" }
    })
  })
  it.each([301, 302, 303, 307, 308, 304])("status %d is not followed", async (status) => {
    const target = await upstream(() => ({ body: {} }))
    const server = await upstream(() => ({ status, headers: { Location: target.at("/") } }))
    expect(reason(await client().fetch(outbound(server.at("/"))))).toBe("redirect")
    expect(target.connections).toBe(0)
  })
  it("gzip is decoded; the limit counts what is decoded", async () => {
    const exact = "x".repeat(1_000)
    const cases: ReadonlyArray<readonly [Said, string]> = [
      [{ body: exact }, exact],
      [{ body: `${exact}x` }, "too-large"],
      [{ body: gzipSync(exact), headers: { "Content-Encoding": "gzip" } }, exact],
      [{ body: gzipSync(`${exact}x`), headers: { "Content-Encoding": "gzip" } }, "too-large"],
      [{ body: gzipSync(Buffer.alloc(1_048_576)), headers: { "Content-Encoding": "gzip" } }, "too-large"],
      [
        {
          body: Buffer.concat(Array.from({ length: 200 }, () => gzipSync(""))),
          headers: { "Content-Encoding": "gzip" }
        },
        "too-large"
      ],
      [{ body: "no gzip", headers: { "Content-Encoding": "gzip" } }, "broken"],
      [{ body: gzipSync(exact).subarray(0, 20), headers: { "Content-Encoding": "gzip" } }, "broken"],
      [{ body: exact, headers: { "Content-Encoding": "br" } }, "encoding"],
      [{ body: exact, headers: { "Content-Encoding": "gzip, gzip" } }, "encoding"],
      [{ body: exact, headers: { "Content-Encoding": "identity" } }, exact]
    ]
    for (const [said, expected] of cases) {
      const server = await upstream(() => said)
      expect(body(await client().fetch(outbound(server.at("/"))))).toBe(expected)
    }
  })
  it("a body over the limit is left as soon as it passes, though it never ends", async () => {
    const server = await upstream(() => ({ body: "x".repeat(1_001), hangs: true }))
    expect(reason(await client().fetch(outbound(server.at("/"))))).toBe("too-large")
  })
  it("one time limit for resolution, connection and body", async () => {
    const server = await upstream(() => ({ body: "x", hangs: true }))
    expect(reason(await client().fetch(outbound(server.at("/"), { timeoutMs: 30 })))).toBe("timeout")
    const never = new SafeFetch(() => new Promise(() => {}))
    expect(
      reason(await outcomeOf(never.fetch(outbound("http://slow.example:8080/", { timeoutMs: 5 }))))
    ).toBe("timeout")
  })
  it("a connection that is not made in time ends", async () => {
    // TLS never begins: the peer takes the connection and says nothing.
    const silent = createTcpServer(() => {})
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve))
    open.push({ close: () => silent.close() })
    expect(
      reason(
        await client(undefined, { connectMs: 20 }).fetch(
          outbound(`https://a.example:${(silent.address() as AddressInfo).port}/`)
        )
      )
    ).toBe("timeout")
  })
  it("an answer that breaks off, or is no HTTP, is broken", async () => {
    for (const words of [
      "",
      "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
      "SSH-2.0-x\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
      `HTTP/1.1 200 OK\r\nX: ${"y".repeat(20_000)}\r\n\r\n`
    ]) {
      const server = createTcpServer((socket) => {
        socket.on("error", () => {})
        socket.end(words)
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      open.push({ close: () => server.close() })
      expect(
        reason(await client().fetch(outbound(`http://a.example:${(server.address() as AddressInfo).port}/`)))
      ).toBe("broken")
    }
  })
  it("media types", () => {
    const of = (type: string | undefined): boolean =>
      isJson({
        status: 200,
        headers: type === undefined ? {} : { "content-type": type },
        body: new Uint8Array(0)
      })
    expect(
      [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/cimd+json"
      ].map(of)
    ).toEqual([true, true, true, true])
    expect(
      [
        undefined,
        "text/html",
        "application/jsonp",
        "text/json",
        "application/+json",
        "application/json/x"
      ].map(of)
    ).toEqual([false, false, false, false, false, false])
  })
})

describe("how many at once", () => {
  it("a host has so many places, all together so many; who waits too long is busy, who waits is served", async () => {
    let release: () => void = () => {}
    const gate = new Promise<void>((resolve) => {
      release = resolve
    })
    let arrived: () => void = () => {}
    const server = await upstream(async () => {
      arrived()
      await gate
      return { body: '"ok"' }
    })
    const { fetch } = client(undefined, { inFlightMax: 3, perHostMax: 2, waitMs: 5 })
    const two = new Promise<void>((resolve) => {
      let count = 0
      arrived = () => {
        if (++count === 3) resolve()
      }
    })
    const flying = [
      fetch(outbound(server.at("/", "a.example"))),
      fetch(outbound(server.at("/", "a.example"))),
      fetch(outbound(server.at("/", "b.example")))
    ]
    await two
    expect(reason(await fetch(outbound(server.at("/", "a.example"))))).toBe("busy")
    expect(reason(await fetch(outbound(server.at("/", "c.example"))))).toBe("busy")
    expect(server.connections).toBe(3)
    release()
    expect((await Promise.all(flying)).map(reason)).toEqual(["status 200", "status 200", "status 200"])
    const waits = client(undefined, { inFlightMax: 1, perHostMax: 1, waitMs: 5_000 })
    expect(
      (
        await Promise.all(
          ["a", "b", "a"].map((host) => waits.fetch(outbound(server.at("/", `${host}.example`))))
        )
      ).map(reason)
    ).toEqual(["status 200", "status 200", "status 200"])
  })
})

describe("a client that goes", () => {
  /** A server that never answers, and how many of its connections were closed by the other side. */
  const silent = async () => {
    const seen = { open: 0, closed: 0 }
    const server = createTcpServer((socket) => {
      seen.open++
      socket.resume()
      socket.on("error", () => {})
      socket.on("close", () => void seen.closed++)
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const { port } = server.address() as AddressInfo
    return { seen, server, url: `http://a.example:${port}/` }
  }
  const fetching = (limits?: Partial<Limits>) => {
    const fetcher = new SafeFetch(new World({}, () => ["127.0.0.1"]).authority.lookup, limits)
    return (url: string) => Effect.runFork(fetcher.fetch(outbound(url)))
  }
  it("aborts its request at the upstream", async () => {
    const { seen, server, url } = await silent()
    const fiber = fetching()(url)
    await vi.waitFor(() => expect(seen.open).toBe(1))
    await Effect.runPromise(Fiber.interrupt(fiber))
    await vi.waitFor(() => expect(seen.closed).toBe(1))
    server.close()
  })
  it("gives its place, or its wait for one, to the next", async () => {
    const { seen, server, url } = await silent()
    const fetch = fetching({ perHostMax: 1, waitMs: 60_000 })
    const [first, second, third] = [fetch(url), fetch(url), fetch(url)]
    await vi.waitFor(() => expect(seen.open).toBe(1))
    await Effect.runPromise(Fiber.interrupt(second))
    expect(seen.open).toBe(1)
    await Effect.runPromise(Fiber.interrupt(first))
    await vi.waitFor(() => expect([seen.open, seen.closed]).toEqual([2, 1]))
    await Effect.runPromise(Fiber.interrupt(third))
    await vi.waitFor(() => expect(seen.closed).toBe(2))
    server.close()
  })
})
