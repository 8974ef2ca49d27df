/** The hostile requests: what is sent, and what each adapter answers. docs/http.md shows the same table. Source:
 *  RFC 9112 (HTTP/1.1), RFC 9110 (semantics), RFC 6455 (WebSocket). */

/** What is sent next: bytes (one code unit each), or an act. */
export type Part =
  | string
  /** The bytes one by one, each in a packet of its own. */
  | { readonly singly: string }
  /** A byte now and then, for ever. */
  | { readonly drip: string }
  /** Waits for so many answers. */
  | { readonly await: number }
  | "half-close"

export interface Outcome {
  readonly statuses: ReadonlyArray<number>
  /** Whether the connection takes another request afterwards; upgraded: it is a WebSocket. */
  readonly connection: "open" | "closed" | "upgraded"
  /** What handlers saw. */
  readonly executed: ReadonlyArray<string>
}

export interface Row {
  readonly group: string
  readonly name: string
  readonly send: ReadonlyArray<Part>
  readonly node: Outcome
  readonly uws: Outcome
  /** Why the adapters differ. */
  readonly why?: string
}

const outcome = (
  statuses: ReadonlyArray<number>,
  connection: Outcome["connection"],
  executed: ReadonlyArray<string> = []
): Outcome => ({ statuses, connection, executed })

const refused = (status: number): Outcome => outcome([status], "closed")
const served = (path: string, ...more: ReadonlyArray<string>): Outcome =>
  outcome(
    [path, ...more].map(() => 200),
    "open",
    [path, ...more]
  )

const rows: Array<Row> = []
let group = ""

const both = (name: string, send: Part | ReadonlyArray<Part>, same: Outcome): void => {
  rows.push({ group, name, send: [send].flat(), node: same, uws: same })
}
const differing = (
  name: string,
  send: Part | ReadonlyArray<Part>,
  { node, uws, why }: Pick<Row, "node" | "uws"> & { readonly why: string }
): void => {
  rows.push({ group, name, send: [send].flat(), node, uws, why })
}

const host = "Host: x\r\n"
const get = (path: string): string => `GET ${path} HTTP/1.1\r\n${host}\r\n`
const head = (fields: string): string => `GET /plain HTTP/1.1\r\n${host}${fields}\r\n`
const post = (fields: string, body: string): string => `POST /echo HTTP/1.1\r\n${host}${fields}\r\n${body}`
const chunks = (body: string): string => post("Transfer-Encoding: chunked\r\n", body)
const behind = get("/behind")

const ownWords = "the library's parser, in its own words"

group = "Length of the body"
both("Content-Length twice, equal", post("Content-Length: 2\r\nContent-Length: 2\r\n", "ab"), refused(400))
both(
  "Content-Length twice, different, a request behind",
  post("Content-Length: 2\r\nContent-Length: 5\r\n", `ab${behind}`),
  refused(400)
)
for (const value of ["2, 2", "+2", "-2", "0x2", "2 2", "99999999999999999999"])
  both(`Content-Length: ${value}`, post(`Content-Length: ${value}\r\n`, "ab"), refused(400))
both("Content-Length without a value, a request behind", post("Content-Length:\r\n", behind), refused(400))
both(
  "Content-Length and Transfer-Encoding",
  post("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", `0\r\n\r\n${behind}`),
  refused(400)
)
for (const value of ["xchunked", "gzip, chunked", "identity", "chunked, chunked", "chunked;a=b"])
  both(
    `Transfer-Encoding: ${value}, a request behind`,
    post(`Transfer-Encoding: ${value}\r\n`, `0\r\n\r\n${behind}`),
    refused(400)
  )
both(
  "Transfer-Encoding twice, a request behind",
  post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", `0\r\n\r\n${behind}`),
  refused(400)
)
both(
  "Transfer-Encoding with HTTP/1.0",
  `POST /echo HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  refused(505)
)

group = "Chunks"
const closesBehind =
  "the connection ends with the answer, because the library says nothing of what it reads laxly"
const once = outcome([200], "closed", ["/echo"])
differing("a chunked body", chunks("2\r\nab\r\n0\r\n\r\n"), {
  node: served("/echo"),
  uws: once,
  why: closesBehind
})
differing("a chunked body, a request behind it in one packet", chunks(`2\r\nab\r\n0\r\n\r\n${behind}`), {
  node: served("/echo", "/behind"),
  uws: outcome([], "closed"),
  why: "the same; the library cuts instead of working on the second"
})
differing(
  "a chunked body, a request behind it afterwards",
  [chunks("2\r\nab\r\n0\r\n\r\n"), { await: 1 }, behind],
  { node: served("/echo", "/behind"), uws: once, why: closesBehind }
)
for (const [name, body] of [
  ["lines that end with LF alone", "2\nab\r\n0\r\n\r\n"],
  ["a size with a space", "2 \r\nab\r\n0\r\n\r\n"],
  ["no line end behind the data", "2\r\nabXX0\r\n\r\n"]
] as const)
  differing(`chunks: ${name}`, chunks(body), {
    node: refused(400),
    uws: once,
    why: "the library reads it; nothing behind it is worked on"
  })
for (const [name, size] of [
  ["a sign", "+2"],
  ["a prefix", "0x2"],
  ["too large a number", "fffffffffffffffff"],
  ["17 kB of extension", `2;a=${"b".repeat(17_000)}`]
] as const)
  both(`chunks: a size with ${name}`, chunks(`${size}\r\nab\r\n0\r\n\r\n`), refused(400))
differing("chunks: a size with an extension", chunks("2;a=b\r\nab\r\n0\r\n\r\n"), {
  node: served("/echo"),
  uws: refused(408),
  why: "the library takes the extension for digits and waits for more"
})
differing("chunks: a digit beyond f", chunks("g\r\nab\r\n0\r\n\r\n"), {
  node: refused(400),
  uws: refused(408),
  why: "the library takes g for 16 and waits for more"
})
differing("trailer fields", chunks("2\r\nab\r\n0\r\nX-Trailer: 1\r\n\r\n"), {
  node: served("/echo"),
  uws: refused(505),
  why: "the library takes them for a request"
})

group = "Head"
const lax = "the library's parser waits for more"
both("lines that end with LF alone", "GET /plain HTTP/1.1\nHost: x\n\n", refused(505))
differing("a CR alone in a field", head("X-A: a\rb\r\n"), { node: refused(400), uws: refused(408), why: lax })
differing("empty lines before the request", `\r\n\r\n${get("/plain")}`, {
  node: served("/plain"),
  uws: refused(408),
  why: lax
})
both("a folded field", head("X-A: a\r\n b\r\n"), refused(400))
both("NUL in a field", head("X-A: a\0b\r\n"), refused(400))
both("a space before the colon", head("X-A : b\r\n"), refused(400))
both("a parenthesis in a field's name", head("X(A: b\r\n"), refused(400))
differing("a field without a name", head(": b\r\n"), {
  node: refused(400),
  uws: served("/plain"),
  why: "the library ends its list of fields there"
})
both(
  "field names with _ . ~ ! + * |",
  head("a_b: 1\r\na.b: 1\r\na~b: 1\r\na!b: 1\r\na+b: 1\r\na*b|: 1\r\n"),
  served("/plain")
)
both("99 fields", head(Array.from({ length: 98 }, (_, i) => `X-${i}: 1\r\n`).join("")), refused(431))
both("98 fields", head(Array.from({ length: 97 }, (_, i) => `X-${i}: 1\r\n`).join("")), served("/plain"))
both("17 kB of fields", head(`X-A: ${"a".repeat(17_000)}\r\n`), refused(431))
both("90 kB of fields", head(`X-A: ${"a".repeat(90_000)}\r\n`), refused(431))
both("a target of 9 kB", get(`/plain?${"a".repeat(9_000)}`), refused(414))
both("no Host", "GET /plain HTTP/1.1\r\nX-A: b\r\n\r\n", refused(400))
both("no field at all", "GET /plain HTTP/1.1\r\n\r\n", refused(400))
both("Host without a value", "GET /plain HTTP/1.1\r\nHost:\r\n\r\n", refused(400))
both("two Hosts", head("Host: y\r\n"), refused(400))
both("a Host with a space and a path", "GET /plain HTTP/1.1\r\nHost: a b/c\r\n\r\n", refused(400))

group = "Request line"
const line = "the library knows paths only; 505 is its word for a request line that it cannot read"
differing("a target in absolute form", `GET http://x/plain HTTP/1.1\r\n${host}\r\n`, {
  node: served("/plain"),
  uws: refused(505),
  why: line
})
differing("CONNECT", `CONNECT x:443 HTTP/1.1\r\n${host}\r\n`, {
  node: refused(400),
  uws: refused(505),
  why: line
})
differing("OPTIONS *", `OPTIONS * HTTP/1.1\r\n${host}\r\n`, {
  node: outcome([404], "open"),
  uws: refused(505),
  why: line
})
differing("bytes that are no HTTP", "\0\x01\x02\r\n\r\n", {
  node: refused(400),
  uws: refused(505),
  why: ownWords
})
differing("TLS on a plain port", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", {
  node: refused(400),
  uws: refused(505),
  why: ownWords
})
both("HTTP/1.0", `GET /plain HTTP/1.0\r\n${host}\r\n`, refused(505))
both("HTTP/1.2", `GET /plain HTTP/1.2\r\n${host}\r\n`, refused(505))
both("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", refused(505))
both(
  "an offer of HTTP/2",
  head("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"),
  served("/plain")
)
differing("HTTP/0.9", "GET /plain\r\n", {
  node: refused(408),
  uws: refused(505),
  why: "node:http waits for a version on a further line"
})
both("a method in lower case", `get /plain HTTP/1.1\r\n${host}\r\n`, refused(400))
both("a method that nobody knows", `BREW /plain HTTP/1.1\r\n${host}\r\n`, refused(400))
both("a byte beyond ASCII in the path", get("/pl\xe4in"), refused(400))
both("a fragment", get("/plain#a"), outcome([404], "open"))

group = "Expectations"
both(
  "100-continue",
  post("Expect: 100-continue\r\nContent-Length: 2\r\n", "ab"),
  outcome([100, 200], "open", ["/echo"])
)
both(
  "100-continue with too large a body",
  post("Expect: 100-continue\r\nContent-Length: 5000\r\n", ""),
  outcome([100, 413], "closed")
)
both("an expectation that nobody knows", post("Expect: 200-ok\r\nContent-Length: 2\r\n", "ab"), refused(417))

group = "WebSocket"
const key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
const upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
const version = "Sec-WebSocket-Version: 13\r\n"
const handshake = (fields: string, method = "GET"): string =>
  `${method} /socket HTTP/1.1\r\n${host}${fields}\r\n`
const framed = (frame: string): ReadonlyArray<Part> => [
  handshake(upgrade + key + version),
  { await: 1 },
  frame
]
const closedSocket = outcome([101], "closed")
both("a frame", framed("\x82\x82\0\0\0\0ab"), outcome([101], "upgraded", ["message ab"]))
both("a short key", handshake(`${upgrade}Sec-WebSocket-Key: abc\r\n${version}`), refused(400))
both("no key", handshake(upgrade + version), refused(400))
both("version 8", handshake(`${upgrade}${key}Sec-WebSocket-Version: 8\r\n`), refused(426))
both("POST", handshake(upgrade + key + version, "POST"), refused(400))
both("a key without Upgrade", handshake(key + version), outcome([404], "open"))
differing("an unmasked frame", framed("\x82\x08abcdefgh"), {
  node: closedSocket,
  uws: outcome([101], "upgraded", []),
  why: "the library takes the first four bytes for the mask, and waits for more"
})
both("a reserved bit", framed("\xc2\x82\0\0\0\0ab"), closedSocket)
both("an operation that nobody knows", framed("\x83\x82\0\0\0\0ab"), closedSocket)
both("a message of 4 GB", framed("\x82\xff\0\0\0\x01\0\0\0\0\0\0\0\0ab"), closedSocket)
both("text that is not UTF-8", framed("\x81\x82\0\0\0\0\xff\xff"), closedSocket)
both("a ping of 126 bytes", framed(`\x89\xfe\0\x7e\0\0\0\0${"a".repeat(126)}`), closedSocket)
both("a frame that is continued and never began", framed("\x80\x82\0\0\0\0ab"), closedSocket)

group = "Slow"
both("a head byte by byte", { singly: get("/plain") }, served("/plain"))
both("a body byte by byte", [post("Content-Length: 9\r\n", ""), { singly: "abcdefghi" }], served("/echo"))
both("a head that stops", "GET /plain HTTP/1.1\r\nHo", refused(408))
both("a head that never ends", [`GET /plain HTTP/1.1\r\n${host}X-A: `, { drip: "a" }], refused(408))
differing("a second head that stops", [get("/plain"), { await: 1 }, "GET /pl"], {
  node: outcome([200, 408], "closed", ["/plain"]),
  uws: outcome([200], "closed", ["/plain"]),
  why: "the library closes it after 28 to 32 s, and tells us nothing"
})
both("a body that stops", post("Content-Length: 9\r\n", "ab"), refused(408))
both("a chunked body that stops", chunks("2\r\nab"), refused(408))
both("a byte of the body now and then", [post("Content-Length: 900\r\n", ""), { drip: "a" }], refused(408))

group = "Half-closed"
const leaving = "the library takes the client for gone"
both("before anything", "half-close", outcome([], "closed"))
differing("in the head", ["GET /plain HTTP/1.1\r\nHo", "half-close"], {
  node: refused(400),
  uws: outcome([], "closed"),
  why: leaving
})
differing("in the body", [post("Content-Length: 9\r\n", "ab"), "half-close"], {
  node: refused(400),
  uws: outcome([], "closed"),
  why: leaving
})
both(
  "behind a request that is answered at once",
  [get("/plain"), "half-close"],
  outcome([200], "closed", ["/plain"])
)
both(
  "behind a request that is still worked on",
  [get("/slow"), "half-close"],
  outcome([], "closed", ["/slow"])
)

group = "Pipelined"
both("GET, GET", get("/plain") + behind, served("/plain", "/behind"))
both("HEAD, GET", `HEAD /plain HTTP/1.1\r\n${host}\r\n${behind}`, served("/plain", "/behind"))
both("POST with a body, GET", post("Content-Length: 2\r\n", "ab") + behind, served("/echo", "/behind"))
differing("a request that is worked on for a while, GET", get("/slow") + behind, {
  node: served("/slow", "/behind"),
  uws: outcome([], "closed", ["/slow"]),
  why: "the library cuts a connection on which a request overtakes another"
})
both("a refused request, GET", head("Host: y\r\n") + behind, refused(400))
both(
  "too large a body announced, GET",
  [post("Content-Length: 5000\r\n", ""), { await: 1 }, "a".repeat(5_000), behind],
  refused(413)
)
differing("too large a chunk, GET", chunks(`1388\r\n${"a".repeat(5_000)}\r\n0\r\n\r\n${behind}`), {
  node: refused(413),
  uws: outcome([], "closed"),
  why: "the library cuts instead of working on the second"
})
differing("a request with Connection: close, GET", head("Connection: close\r\n") + behind, {
  node: outcome([200], "closed", ["/plain"]),
  uws: outcome([], "closed"),
  why: "the library cuts instead of working on the second"
})

export const hostileRequests: ReadonlyArray<Row> = rows

const phrase = ({ statuses, connection, executed: seen }: Outcome): string => {
  const answer = statuses.length === 0 ? "no answer" : statuses.join(", ")
  const behind =
    seen.length > 0 && statuses.every((status) => status !== 200) ? `; sees ${seen.join(", ")}` : ""
  return `${answer}; ${connection}${behind}`
}

/** The table as docs/http.md has it. */
export const tableOf = (rows: ReadonlyArray<Row>): string => {
  const groups = new Map<string, Array<string>>()
  for (const { group, name, node, uws, why } of rows) {
    const lines = groups.get(group) ?? []
    groups.set(group, lines)
    const other = phrase(uws) === phrase(node) ? "the same" : phrase(uws)
    lines.push(`| ${name.replaceAll("|", "\\|")} | ${phrase(node)} | ${other} | ${why ?? ""} |`)
  }
  return [...groups]
    .map(
      ([group, lines]) =>
        `### ${group}\n\n| Sent | node | uws | Why they differ |\n|---|---|---|---|\n${lines.join("\n")}\n`
    )
    .join("\n")
}
