/** The built program on a folder of data: started as its users start it, at a time of its own, asked over HTTP. Nothing here knows a symbol
 *  of the source. */
import { spawn, type ChildProcess } from "node:child_process"
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { createInterface } from "node:readline"
import { dirname, join } from "node:path"
import { gunzipSync } from "node:zlib"
import { open as openLmdb } from "lmdb"
import { valueOf } from "../../../storage/checksum.ts"
import { unpack as unpackMessage } from "msgpackr"
import { outsidePort, type Outside } from "./outside.ts"

export interface Place {
  /** Of the checkout whose built program runs. */ readonly root: string
  /** The folder of the preload. */ readonly tools: string
  readonly data: string
  readonly config: string
  readonly outside: Outside
  readonly clockMs: number
  readonly env?: Readonly<Record<string, string>>
}
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly body: any
}
export interface Asking {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly json?: unknown
  readonly form?: Readonly<Record<string, string>>
  readonly raw?: string | Uint8Array<ArrayBuffer> | FormData
}

/** At most, until it listens. */
const startMs = 20_000

export class Program {
  readonly url: string
  readonly said: Readonly<Record<string, any>>
  readonly lines: ReadonlyArray<string>
  private readonly child: ChildProcess
  private readonly exited: Promise<number | null>
  private readonly startedMs = Date.now()
  private readonly clockMs: number
  private ahead = 0
  private constructor(parts: {
    readonly child: ChildProcess
    readonly exited: Promise<number | null>
    readonly said: Readonly<Record<string, any>>
    readonly lines: ReadonlyArray<string>
    readonly clockMs: number
  }) {
    this.child = parts.child
    this.exited = parts.exited
    this.said = parts.said
    this.lines = parts.lines
    this.clockMs = parts.clockMs
    this.url = `http://localhost:${parts.said["port"]}`
  }

  static async start(place: Place): Promise<Program> {
    const { child, exited, lines } = launch(place, [
      "serve",
      "--config",
      place.config,
      "--port",
      "0",
      "--json"
    ])
    const said = await new Promise<Record<string, any>>((resolve, reject) => {
      const late = setTimeout(() => {
        child.kill("SIGKILL")
      }, startMs)
      createInterface({ input: child.stdout! }).on("line", (line) => {
        lines.push(line)
        if (!line.startsWith('{"url"')) return
        clearTimeout(late)
        resolve(JSON.parse(line) as Record<string, any>)
      })
      void exited.then((code) => {
        clearTimeout(late)
        reject(new Error(`the program did not start (${code}):\n${lines.join("\n")}`))
      })
    })
    return new Program({ child, exited, said, lines, clockMs: place.clockMs })
  }
  /** The program's time. */
  get nowMs(): number {
    return this.clockMs + this.ahead + Date.now() - this.startedMs
  }
  /** Moves it on by 20 s: to where rates begin anew. */
  async later(): Promise<void> {
    this.child.kill("SIGUSR2")
    this.ahead += 20_000
    await new Promise((resolve) => {
      setTimeout(resolve, 30)
    })
  }
  async stop(): Promise<number | null> {
    this.child.kill("SIGTERM")
    return await this.exited
  }
  async kill(): Promise<void> {
    this.child.kill("SIGKILL")
    await this.exited
  }

  async call(path: string, { method, headers = {}, json, form, raw }: Asking = {}): Promise<Answer> {
    const formBody = form === undefined ? undefined : new URLSearchParams(form).toString()
    const body = raw ?? (json === undefined ? formBody : JSON.stringify(json))
    const formType = form === undefined ? {} : { "content-type": "application/x-www-form-urlencoded" }
    const type = json === undefined ? formType : { "content-type": "application/json" }
    const answer = await fetch(`${this.url}${path}`, {
      method: method ?? (body === undefined ? "GET" : "POST"),
      redirect: "manual",
      headers: { ...type, ...headers },
      ...(body === undefined ? {} : { body }),
      signal: AbortSignal.timeout(20_000)
    })
    const text = await answer.text()
    let parsed: any
    try {
      parsed = JSON.parse(text)
    } catch {
      parsed = undefined
    }
    return { status: answer.status, headers: answer.headers, text, body: parsed }
  }
}

const launch = ({ root, tools, data, outside, clockMs, env = {} }: Place, words: ReadonlyArray<string>) => {
  const { bin } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly bin: { readonly troupe: string }
  }
  const lines: Array<string> = []
  const child = spawn(process.execPath, [join(root, bin.troupe), ...words], {
    stdio: ["ignore", "pipe", "pipe"],
    cwd: dirname(data),
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      TROUPE_PRINT_SECRETS: "always",
      ...env,
      TROUPE_DATA: data,
      NODE_OPTIONS: `--require ${join(tools, "preload.cjs")}`,
      SAMPLE_CLOCK_MS: String(clockMs),
      SAMPLE_OUTSIDE_PORT: String(outsidePort),
      SAMPLE_OUTSIDE_PORT_NOW: String(outside.port)
    }
  })
  createInterface({ input: child.stderr! }).on("line", (line) => lines.push(line))
  const left = (): void => {
    child.kill("SIGKILL")
  }
  process.once("exit", left)
  const exited = new Promise<number | null>((resolve) => {
    child.on("close", (code) => {
      process.off("exit", left)
      resolve(code)
    })
  })
  return { child, exited, lines }
}
/** A command of the command line, to its end. */
export const command = async (place: Place, words: ReadonlyArray<string>): Promise<string> => {
  const { child, exited, lines } = launch(place, words)
  let text = ""
  child.stdout!.on("data", (part: Buffer) => {
    text += part.toString()
  })
  const code = await exited
  if (code !== 0)
    throw new Error(`troupe ${words.join(" ")} ended with ${code}:\n${lines.join("\n")}\n${text}`)
  return text
}

/** A browser without a screen: cookies, the hidden fields of forms, redirects within the program. */
export class Browser {
  readonly cookies = new Map<string, string>()
  private readonly program: Program
  constructor(program: Program, cookies: Readonly<Record<string, string>> = {}) {
    this.program = program
    for (const [name, value] of Object.entries(cookies)) this.cookies.set(name, value)
  }
  async call(path: string, asking: Asking = {}): Promise<Answer> {
    const answer = await this.program.call(path, {
      ...asking,
      headers: {
        accept: "text/html",
        ...asking.headers,
        cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ")
      }
    })
    for (const cookie of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.cookies.set(name!, value!)
    }
    return answer
  }
  hidden(text: string): Record<string, string> {
    return Object.fromEntries(
      [...text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(([, name, value]) => [
        name!,
        value!.replaceAll("&amp;", "&")
      ])
    )
  }
  /** Through the pages of the program to the last answer; signs in and consents where asked. `until`: the page to stay on. */
  async visit(
    path: string,
    user: { readonly email: string; readonly password: string },
    until?: string
  ): Promise<Answer> {
    let answer = await this.call(path)
    for (let step = 0; step < 8; step++) {
      const location = answer.headers.get("location")
      if (location === null || !location.startsWith("/")) return answer
      answer = await this.call(location)
      if (until !== undefined && location.startsWith(until)) return answer
      if (answer.status !== 200) continue
      if (location.startsWith("/login"))
        answer = await this.call("/login", {
          form: { ...this.hidden(answer.text), email: user.email, password: user.password }
        })
      else if (location.startsWith("/consent"))
        answer = await this.call("/consent", { form: { ...this.hidden(answer.text), decision: "allow" } })
    }
    return answer
  }
}

/** What lies in a store, by the first elements of its keys, with nothing but LMDB and MessagePack: actors with events, snapshots and expiries;
 *  tables and counters with their rows. */
export interface Inventory {
  readonly actors: ReadonlyArray<string>
  readonly kinds: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** Tags of events, and after a slash those of snapshots, by kind. */
  readonly tags: Readonly<Record<string, ReadonlyArray<string>>>
  /** Tags of the newest event (or, after a slash, of the folded state) of an actor, by kind: how far its work had come. */
  readonly newest: Readonly<Record<string, ReadonlyArray<string>>>
  readonly tables: Readonly<Record<string, number>>
  readonly counters: Readonly<Record<string, number>>
  readonly blobs: Readonly<Record<string, number>>
  readonly others: ReadonlyArray<string>
}
const counted = (counts: Record<string, number>, name: string): void => {
  counts[name] = (counts[name] ?? 0) + 1
}
/** A blob's name without what is its alone. */
export const blobKind = (id: string): string =>
  id.replaceAll(/[0-9A-F]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID").replaceAll(/\d+/g, "N")

const sorted = (sets: Readonly<Record<string, ReadonlySet<string>>>): Record<string, ReadonlyArray<string>> =>
  Object.fromEntries(Object.entries(sets).map(([kind, all]) => [kind, [...all].sort()]))
const newestOf = (tags: ReadonlyMap<string, string>): Record<string, Set<string>> => {
  const all: Record<string, Set<string>> = {}
  for (const [address, tag] of tags) (all[address.slice(0, address.indexOf("/"))] ??= new Set()).add(tag)
  return all
}

export const inventoryOf = async (data: string): Promise<Inventory> => {
  const db = openLmdb<Buffer, Array<string | number>>({
    path: join(data, "store.lmdb"),
    encoding: "binary",
    readOnly: true
  })
  const kinds: Record<string, Record<string, number>> = {}
  const tags: Record<string, Set<string>> = {}
  const tables: Record<string, number> = {}
  const counters: Record<string, number> = {}
  const blobs: Record<string, number> = {}
  const actors: Array<string> = []
  const others: Array<string> = []
  const newest = new Map<string, string>()
  const tagged = (kind: string, id: string, tag: string): void => {
    ;(tags[kind] ??= new Set()).add(tag)
    const address = `${kind}/${id}`
    // Events come before snapshots, and are newer.
    if (!tag.startsWith("/") || !newest.has(address)) newest.set(address, tag)
  }
  for (const { key, value: bytes } of db.getRange({})) {
    // The key's mark is the only value that is neither of the old form nor of the new one.
    const value = valueOf(bytes) ?? bytes
    const [room, name, id] = key as [string, string, string]
    if (room === "t") counted(tables, name)
    else if (room === "c") counted(counters, name)
    else if (room === "x") counted((kinds[id] ??= {}), "x")
    else if (["j", "s", "i", "e"].includes(room)) {
      counted((kinds[name] ??= {}), room)
      if (room === "i") actors.push(`${name}/${id}`)
      if (room === "j")
        tagged(name, id, (unpackMessage(value) as [number, { readonly _tag: string }])[1]._tag)
      if (room === "s")
        tagged(
          name,
          id,
          `/${(unpackMessage((unpackMessage(value) as [number, Buffer])[1]) as [number, { readonly _tag: string }])[1]._tag}`
        )
    } else others.push(key.join(" "))
  }
  await db.close()
  for (const blob of readdirSync(join(data, "blobs"))) counted(blobs, blobKind(blob))
  return {
    actors,
    kinds,
    tags: sorted(tags),
    newest: sorted(newestOf(newest)),
    tables,
    counters,
    blobs,
    others
  }
}

const block = 512
/** Unpacks a .tar.gz of plain files and folders (POSIX.1-1988 ustar). */
export const unpack = (archive: string, folder: string): void => {
  const bytes = gunzipSync(readFileSync(archive))
  for (let at = 0; at + block <= bytes.length && bytes[at] !== 0;) {
    const text = (from: number, length: number): string =>
      bytes.toString("latin1", at + from, at + from + length).replace(/\0.*$/s, "")
    const size = Number.parseInt(text(124, 12), 8)
    const path = join(folder, text(0, 100))
    if (text(156, 1) === "5") mkdirSync(path, { recursive: true, mode: 0o700 })
    else {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
      writeFileSync(path, bytes.subarray(at + block, at + block + size), { mode: 0o600 })
    }
    at += block + Math.ceil(size / block) * block
  }
}
