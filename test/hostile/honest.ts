/** The honest clients of four services: each asks at its own pace, from its own address, within its window,
 *  and knows what the right answer is. A latency counts from the moment at which the request was due. What
 *  the hand-written floor answers too has the same shape for both. */
import { newHistogram, percentileMs, recordMs } from "../../bench/load/latencies.ts"
import { Tally, turnedAway, type TallyReport, type Verdict } from "./tally.ts"
import { backwards } from "./models.ts"
import type { Accounts } from "./preparation.ts"
import { speak } from "./speaker.ts"
import { Wire, fieldOf, type Answer, type Ask } from "./wire.ts"

export interface HonestSettings {
  readonly port: number
  readonly accounts: Accounts
  readonly refreshClient: string
  /** How many products there are, with the ids from 1. */
  readonly products: number
  /** False at the floor, which serves only what is measured beside it. */
  readonly isWhole: boolean
}

export interface KindReport {
  readonly kind: string
  readonly answered: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** What an overloaded program may say to anybody: 503 and 504. */
  readonly turnedAway: number
  readonly wrong: number
  /** The first wrong answers. */
  readonly examples: ReadonlyArray<string>
}

export interface HonestReport {
  readonly kinds: ReadonlyArray<KindReport>
  readonly tally: TallyReport
}

type Turn = () => Promise<Verdict>

interface Kind {
  readonly kind: string
  readonly everyMs: number
  readonly turn: Turn
}

const formType = "application/x-www-form-urlencoded"
const examplesMax = 5

/** The text of a stream of chat chunks. */
const streamedText = (body: string): string =>
  body
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6)).choices[0]?.delta?.content ?? "")
    .join("")

class Client {
  private readonly wire: Wire
  private readonly tally: Tally
  private readonly address: string | undefined

  constructor(port: number, tally: Tally, address?: string) {
    this.wire = new Wire({ port })
    this.tally = tally
    this.address = address
  }

  async ask(ask: Ask): Promise<Answer | undefined> {
    const headers = { ...(this.address && { "X-Forwarded-For": this.address }), ...ask.headers }
    this.tally.sent++
    const answer = await this.wire.ask({ ...ask, headers })
    this.tally.count(answer, ask.path)
    return answer
  }

  post(path: string, type: string, body: string, headers: Readonly<Record<string, string>>) {
    return this.ask({ method: "POST", path, body, headers: { "Content-Type": type, ...headers } })
  }
}

const wrongUnless = (isRight: boolean, answer: Answer | undefined): Verdict => {
  if (answer === undefined) return "no answer"
  if (answer.status === 503 || answer.status === 504) return turnedAway
  return isRight ? undefined : `${answer.status} ${answer.body.slice(0, 200)}`
}

/** The body of an answer with the status, as JSON; undefined for any other. */
const jsonOf = (answer: Answer | undefined, status = 200): any => {
  try {
    return answer?.status === status ? JSON.parse(answer.body) : undefined
  } catch {
    return undefined
  }
}

const translating = ({ port, accounts }: HonestSettings, tally: Tally, isNew: boolean): Turn => {
  const client = new Client(port, tally, "192.0.2.1")
  let turns = 0
  return async () => {
    const n = turns++
    const text = isNew ? `Тэкст нумар ${process.pid}-${n}` : `Добры дзень, ${n % 50}`
    const answer = await client.post(
      "/v2/translate",
      "application/json",
      JSON.stringify({ text: [text], source_lang: "BE", target_lang: "DE" }),
      { Authorization: `DeepL-Auth-Key ${accounts.translationKey}` }
    )
    return wrongUnless(jsonOf(answer)?.translations?.[0]?.text === text.toUpperCase(), answer)
  }
}

const chatting = ({ port, accounts }: HonestSettings, tally: Tally, stream: boolean): Turn => {
  const client = new Client(port, tally, "192.0.2.2")
  let turns = 0
  return async () => {
    const content = `question ${turns++} of an honest person`
    const answer = await client.post(
      "/v1/chat/completions",
      "application/json",
      JSON.stringify({ model: "main/model", stream, messages: [{ role: "user", content }] }),
      { Authorization: `Bearer ${accounts.chatKey}` }
    )
    const text = stream ? streamedText(answer?.body ?? "") : jsonOf(answer)?.choices?.[0]?.message?.content
    return wrongUnless(text === backwards(content), answer)
  }
}

const tokens = ({ port, accounts }: HonestSettings, tally: Tally): ReadonlyArray<Kind> => {
  const issuer = new Client(port, tally, "192.0.2.3")
  const resource = new Client(port, tally, "192.0.2.3")
  const form = (client: Client, path: string, body: string) =>
    client.post(path, formType, body, { Authorization: accounts.client })
  let token = ""
  const issue: Turn = async () => {
    const answer = await form(issuer, "/oauth/token", "grant_type=client_credentials&scope=demo%3Aread")
    const issued = jsonOf(answer)?.access_token
    const isNew = typeof issued === "string" && issued.split(".").length === 3 && issued !== token
    if (isNew) token = issued
    return wrongUnless(isNew, answer)
  }
  const introspect: Turn = async () => {
    if (token === "") return undefined
    const answer = await form(resource, "/oauth/introspect", `token=${token}`)
    return wrongUnless(jsonOf(answer)?.active === true, answer)
  }
  return [
    { kind: "token", everyMs: 200, turn: issue },
    { kind: "introspect", everyMs: 100, turn: introspect }
  ]
}

/** Families of refresh tokens, each turn rotates one. */
const refreshing = ({ port, accounts, refreshClient }: HonestSettings, tally: Tally): Turn => {
  const client = new Client(port, tally, "192.0.2.4")
  const current = [...accounts.refreshTokens]
  let turns = 0
  return async () => {
    const i = turns++ % current.length
    const answer = await client.post(
      "/oauth/token",
      formType,
      `grant_type=refresh_token&refresh_token=${current[i]}`,
      { Authorization: refreshClient }
    )
    const next = jsonOf(answer)?.refresh_token
    const isNew = typeof next === "string" && next !== current[i]
    if (isNew) current[i] = next
    return wrongUnless(isNew, answer)
  }
}

/** In turn a list, a read, a create, and an update of what was created: four in a second, of five that the
 *  window allows. */
const shopping = ({ port, accounts, products }: HonestSettings, tally: Tally): ReadonlyArray<Kind> => {
  const [reader, lister, writer] = [1, 2, 3].map(() => new Client(port, tally)) as [Client, Client, Client]
  const headers = { "X-STORE-Auth-Token": accounts.storeToken, "Content-Type": "application/json" }
  let turns = 0
  let created = 0
  const read: Turn = async () => {
    const id = 1 + (turns++ % products)
    const answer = await reader.ask({ method: "GET", path: `/api/v1/products/${id}`, headers })
    return wrongUnless(jsonOf(answer)?.id === id, answer)
  }
  const list: Turn = async () => {
    const answer = await lister.ask({ method: "GET", path: "/api/v1/products.json?count=5", headers })
    return wrongUnless(jsonOf(answer)?.products?.length === 5, answer)
  }
  const create: Turn = async () => {
    const name = `honest ${process.pid}-${turns++}`
    const body = JSON.stringify({
      item_name: name,
      item_number: name,
      product_status_id: 1,
      primary_category_id: 1
    })
    const answer = await writer.ask({ method: "POST", path: "/api/v1/products", headers, body })
    const row = jsonOf(answer, 201)
    if (row?.item_name === name) created = row.id
    return wrongUnless(row?.item_name === name, answer)
  }
  const update: Turn = async () => {
    if (created === 0) return create()
    const name = `changed ${process.pid}-${turns++}`
    const body = JSON.stringify({ item_name: name })
    const answer = await writer.ask({ method: "PUT", path: `/api/v1/products/${created}`, headers, body })
    return wrongUnless(jsonOf(answer)?.item_name === name, answer)
  }
  const remove: Turn = async () => {
    if (created === 0) return create()
    const answer = await writer.ask({ method: "DELETE", path: `/api/v1/products/${created}`, headers })
    created = 0
    return wrongUnless(answer !== undefined && answer.status < 300, answer)
  }
  const cycle = [create, update, remove]
  let step = 0
  return [
    { kind: "store read", everyMs: 1_000, turn: read },
    { kind: "store list", everyMs: 1_000, turn: list },
    { kind: "store write", everyMs: 500, turn: () => cycle[step++ % cycle.length]!() }
  ]
}

/** The demo user comes to the sign-in page and signs in. */
const signingIn = ({ port, accounts }: HonestSettings, tally: Tally): Turn => {
  const client = new Client(port, tally, "192.0.2.5")
  return async () => {
    const page = await client.ask({ method: "GET", path: "/login", headers: { Accept: "text/html" } })
    const cookie = (fieldOf(page?.head ?? "", "set-cookie") ?? "").split(";")[0]!
    const hidden = [
      ...(page?.body ?? "").matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)
    ].map(([, name, value]) => [name!, value!] as const)
    const form = new URLSearchParams({
      ...Object.fromEntries(hidden),
      email: accounts.user,
      password: accounts.password
    })
    const answer = await client.post("/login", formType, form.toString(), {
      Cookie: cookie,
      Origin: `http://localhost:${port}`,
      Host: `localhost:${port}`,
      Accept: "text/html"
    })
    return wrongUnless(answer !== undefined && [302, 303].includes(answer.status), answer)
  }
}

const kindsOf = (settings: HonestSettings, tally: Tally): ReadonlyArray<Kind> => [
  { kind: "translate", everyMs: 50, turn: translating(settings, tally, false) },
  { kind: "chat whole", everyMs: 100, turn: chatting(settings, tally, false) },
  { kind: "chat stream", everyMs: 100, turn: chatting(settings, tally, true) },
  ...tokens(settings, tally),
  { kind: "refresh", everyMs: 200, turn: refreshing(settings, tally) },
  ...shopping(settings, tally),
  ...(settings.isWhole
    ? [
        { kind: "translate new", everyMs: 500, turn: translating(settings, tally, true) },
        { kind: "sign-in", everyMs: 3_000, turn: signingIn(settings, tally) },
        { kind: "voice", everyMs: 30_000, turn: () => speak(settings) }
      ]
    : [])
]

export class Honest {
  private readonly tally = new Tally()
  private readonly running: ReadonlyArray<Promise<KindReport>>
  private isOver = false

  constructor(settings: HonestSettings) {
    this.running = kindsOf(settings, this.tally).map((kind) => this.run(kind))
  }

  /** Ends when every request on its way is answered. */
  async end(): Promise<HonestReport> {
    this.isOver = true
    const kinds = await Promise.all(this.running)
    return { kinds, tally: this.tally.report() }
  }

  private async run({ kind, everyMs, turn }: Kind): Promise<KindReport> {
    const histogram = newHistogram()
    const examples: Array<string> = []
    let wrong = 0
    let away = 0
    for (let dueMs = performance.now(); !this.isOver;) {
      const said = await turn()
      recordMs(histogram, performance.now() - dueMs)
      if (said === turnedAway) away++
      else if (said !== undefined) {
        wrong++
        if (examples.length < examplesMax) examples.push(said)
      }
      // Who waited long for an answer does not make up for what it did not ask meanwhile: that would be a flood.
      dueMs = Math.max(dueMs + everyMs, performance.now() - everyMs)
      while (!this.isOver && performance.now() < dueMs)
        await new Promise((resolve) => {
          setTimeout(resolve, Math.min(200, Math.max(1, dueMs - performance.now())))
        })
    }
    return {
      kind,
      answered: histogram.totalCount,
      p50Ms: percentileMs(histogram, 50),
      p99Ms: percentileMs(histogram, 99),
      maxMs: histogram.maxValue / 1_000,
      turnedAway: away,
      wrong,
      examples
    }
  }
}
