/** SIGKILLs under mixed load of all services: the built program is killed at a moment by chance, also while it
 *  starts, and started again on its folder; then every service's ledger is compared with what is there.
 *  Guarantee: every child and the folder go with the run. Source: docs/contributing.md, "Crash storm". */
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { openModels, worldOf } from "../hostile/models.ts"
import { callback, registered, storeTokenOf } from "../hostile/preparation.ts"
import { Served, type ServedOptions } from "../hostile/served.ts"
import { AuthorizationBook } from "./authorization-book.ts"
import { random, Violations, type Book } from "./book.ts"
import { Caller } from "./caller.ts"
import { ChatBook } from "./chat-book.ts"
import { StoreBook } from "./store-book.ts"
import { TranslationBook } from "./translation-book.ts"

export interface StormOptions {
  readonly kills: number
  readonly env?: Readonly<Record<string, string>>
  readonly say: (text: string) => void
}

export interface StormReport {
  readonly kills: number
  /** Of these, while the program was starting. */
  readonly killsAtStart: number
  readonly answered: number
  readonly promises: Readonly<Record<string, number>>
  readonly checks: number
  readonly violations: ReadonlyArray<string>
  /** Lines of level error, and what was no log line, by their text. */
  readonly errorLines: Readonly<Record<string, number>>
  readonly startMs: { readonly p50: number; readonly most: number }
  readonly seconds: number
}

/** The load lasts this long before a kill. */
const loadMsMin = 100
const loadMsMax = 600
const answersMin = 40
const loadMsLast = 5_000
/** One start of so many is killed before it is over. */
const startKillsEvery = 10
const startKillMsMax = 400
/** A whole look at every ledger, and the program's own check, after so many kills. */
const wholeEvery = 50
const sayEvery = 25

const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as AddressInfo
      probe.close(() => resolve(port))
    })
  })

const wait = (ms: number): Promise<void> =>
  new Promise((resolve) => {
    setTimeout(resolve, ms)
  })

interface Storm {
  readonly served: Served
  readonly books: ReadonlyArray<Book>
  readonly caller: Caller
  readonly ms: number
}

/** Lets every client of every service act until the program is killed: after `ms`, and on a busy machine not
 *  before so many answers came. */
const storm = async ({ served, books, caller, ms }: Storm): Promise<void> => {
  let isUp = true
  const clients = books.flatMap(({ acts }) =>
    acts.map(async (act) => {
      while (isUp) {
        await act()
        await wait(1)
      }
    })
  )
  const enough = caller.answered + answersMin
  await wait(ms)
  for (let waitedMs = 0; caller.answered < enough && waitedMs < loadMsLast; waitedMs += 5) await wait(5)
  isUp = false
  await served.kill("SIGKILL")
  await Promise.all(clients)
}

const checkProgram = async (caller: Caller, token: string, violations: Violations): Promise<void> => {
  const { body, text } = await caller.answer("/console/api/check", {
    headers: { Authorization: `Bearer ${token}` }
  })
  violations.unless(body?.ok === true, () => `check: ${text}`)
}

export const runStorm = async ({ kills, say, env = {} }: StormOptions): Promise<StormReport> => {
  const home = mkdtempSync(join(tmpdir(), "troupe-storm-"))
  process.once("exit", () => rmSync(home, { recursive: true, force: true, maxRetries: 5 }))
  const sinceMs = performance.now()
  const errorLines: Record<string, number> = {}
  const options: ServedOptions = {
    home,
    port: await freePort(),
    env: { ...worldOf(await openModels()), STT_MAX_SESSIONS: "0", ...env },
    onLine: ({ level, message, raw }) => {
      if (level !== "error" && raw === undefined) return
      const text = message ?? raw!
      errorLines[text] = (errorLines[text] ?? 0) + 1
    }
  }
  const violations = new Violations()
  let served = await Served.start(options)
  const secrets = await served.secrets()
  const caller = new Caller(served.url)
  const { client, clientId, browser } = await registered(served, secrets, 1)
  const books: ReadonlyArray<Book> = [
    new StoreBook(caller, violations, {
      acts: await storeTokenOf(served, secrets, "installed"),
      looks: await storeTokenOf(served, secrets, "custom")
    }),
    new AuthorizationBook(caller, violations, {
      client,
      clientId,
      browser,
      callback,
      service: `Basic ${Buffer.from(`${secrets.oauthClientId}:${secrets.oauthClientSecret}`).toString("base64")}`,
      resource: `${served.url}/demo`
    }),
    new ChatBook(caller, violations),
    new TranslationBook(caller, violations, secrets.developerKey)
  ]
  const startsMs: Array<number> = []
  let killsAtStart = 0
  let checks = 0
  while (violations.kill < kills) {
    await storm({ served, books, caller, ms: loadMsMin + random(loadMsMax - loadMsMin) })
    violations.kill++
    while (violations.kill < kills && random(startKillsEvery) === 0) {
      await Served.startAndKill(options, random(startKillMsMax))
      violations.kill++
      killsAtStart++
    }
    const startMs = performance.now()
    served = await Served.start(options)
    startsMs.push(performance.now() - startMs)
    const isWhole = startsMs.length % wholeEvery === 0 || violations.kill === kills
    await Promise.all(books.map((book) => book.check(isWhole)))
    if (isWhole) {
      await checkProgram(caller, secrets.operatorToken, violations)
      checks++
    }
    if (startsMs.length % sayEvery === 0)
      say(
        `${violations.kill} kills, ${books.map(({ name, promises }) => `${name} ${promises}`).join(", ")}, violations ${violations.texts.length}, ${((performance.now() - sinceMs) / 1_000).toFixed(0)} s`
      )
  }
  await served.kill("SIGTERM")
  startsMs.sort((a, b) => a - b)
  return {
    kills: violations.kill,
    killsAtStart,
    answered: caller.answered,
    promises: Object.fromEntries(books.map(({ name, promises }) => [name, promises])),
    checks,
    violations: violations.texts,
    errorLines,
    startMs: { p50: startsMs[startsMs.length >> 1] ?? 0, most: startsMs.at(-1) ?? 0 },
    seconds: (performance.now() - sinceMs) / 1_000
  }
}
