/** Writes a sample: folders of data, made by the built program of a checkout, asked as its users ask it, in as many states as it knows; and
 *  what it answers about them. README.md says how to run it. Node runs no TypeScript of ours by itself, so esbuild bundles this first. */
import { execFileSync } from "node:child_process"
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { sleep, type Known } from "./asking/asked.ts"
import { newestTags } from "./checklist.ts"
import { fillAuthorization } from "./making/authorization.ts"
import { chat, fillChat } from "./making/chat.ts"
import { callback, challenge, good, Making, minuteMs, until } from "./making/making.ts"
import { consoleOf, fillStore, webhook } from "./making/store.ts"
import {
  closed,
  declared,
  document,
  documentIs,
  exported,
  fillTranslation,
  imported,
  listening,
  quality,
  tmx,
  uploaded,
  voiceIs,
  voiceJob,
  voiceUpload
} from "./making/translation.ts"
import { Outside } from "./outside.ts"
import { Browser, command, inventoryOf, unpack, type Inventory, type Place } from "./program.ts"
import { asked, laterMs } from "./questions.ts"
import { masked, type Transcript } from "./recording.ts"
import { spoken } from "./sound.ts"

const [, , rootGiven, nameGiven, only] = process.argv
if (rootGiven === undefined || nameGiven === undefined)
  throw new Error("wants the folder of a built checkout and the name of the sample")
const root = resolve(rootGiven)
const tools = resolve("test/samples/data")
const target = join(tools, nameGiven)
const work = mkdtempSync(join(tmpdir(), "troupe-sample-"))
const workshop = { root, tools, target, work }

const full = async (outside: Outside): Promise<Making> => {
  const to = new Making(workshop, outside, "full")
  const { facts } = to
  await to.up()
  await sleep(300)

  // Early: what has to grow old. A webhook whose target fails until it is put aside (30 s, 5 min, 30 min, 2 h, 8 h), jobs that expire.
  const dead = await webhook(to, "dead", "ProductUpdated")
  outside.broken.add("/hooks/dead")
  await to.store("products/1", { method: "PUT", json: { price: 13.37 } })
  facts["oldQuality"] = (await quality(to)).job_id
  const old = await imported(to, "old", 3)
  facts["oldExport"] = (await exported(to, old.memory)).job_id
  facts["oldMemory"] = old.memory
  const stale = await chat(to, { model: "local/echo", input: "of an earlier hour" })
  facts["staleResponse"] = stale.id
  for (const waitMs of [30_000, 5 * minuteMs, 30 * minuteMs, 120 * minuteMs, 480 * minuteMs]) {
    await until("a rest", async () => (await to.phase("webhook-delivery", String(dead))) === "Resting")
    const before = outside.heard.length
    await to.later(waitMs + 1_000, "stop")
    await until("another attempt", async () =>
      outside.heard.slice(before).some(({ path }) => path === "/hooks/dead")
    )
  }
  await until("put aside", async () => (await to.phase("webhook-delivery", String(dead))) === "Idle")
  outside.broken.delete("/hooks/dead")
  facts["lateVoiceJob"] = (await voiceJob(to, 2)).job_id
  await to.later(6 * minuteMs, "stop")
  await voiceIs(to, facts["lateVoiceJob"], "failed")
  // Its session is near its end: it is held for the turn.
  facts["heldResponse"] = (
    await chat(to, { model: "local/echo", input: "near the end", previous_response_id: stale.id })
  ).id

  facts["hooks"] = { dead, good: await webhook(to, "good", "ProductCreated") }
  await fillStore(to)
  await consoleOf(to, facts["storeUser"], facts["storePassword"])
  await fillAuthorization(to)
  // A user's token for the store, and a look at what is encrypted.
  const storeBrowser = new Browser(to.program)
  const redirected = await storeBrowser.visit(
    `/oauth/authorize?${new URLSearchParams({
      client_id: facts["storeApp"].id,
      redirect_uri: callback,
      response_type: "code",
      code_challenge: challenge("s".repeat(43)),
      code_challenge_method: "S256",
      scope: "catalog read_catalog orders people decrypt",
      resource: "http://localhost:8080/api/v1/",
      state: "s"
    }).toString()}`,
    { email: facts["oauthUser"], password: facts["oauthPassword"] }
  )
  const storeCode = new URL(redirected.headers.get("location")!).searchParams.get("code")!
  facts["storeUser"] = await good(
    to.call("/oauth/token", {
      form: {
        grant_type: "authorization_code",
        code: storeCode,
        redirect_uri: callback,
        code_verifier: "s".repeat(43)
      },
      headers: {
        authorization: `Basic ${Buffer.from(`${facts["storeApp"].id}:${facts["storeApp"].secret}`).toString("base64")}`
      }
    })
  )
  const orderPayment = await to.store(`orders/${facts["store"].placedOrder}/payments`).catch(() => undefined)
  facts["store"].placedPayment = orderPayment?.order_payments?.[0]?.id ?? facts["store"].order_payments + 1
  await to.store(`credit_cards/${facts["store"].credit_cards}/decrypted`, {}, facts["storeUser"].access_token)
  await fillTranslation(to)
  // After a kill it waits for its key.
  outside.silentText = "never comes"
  facts["documents"].locked = await document(to, "This one never comes, and is locked.", "locked.txt")
  await documentIs(to, facts["documents"].locked, "translating")
  await to.later(1_000)
  await until(
    "a locked document",
    async () => (await to.phase("document-job", facts["documents"].locked.document_id)) === "Locked"
  )
  await fillChat(to)

  // Live sessions: one concluded and left, one that has been renewed so often that its journal was folded, one never opened.
  const session = (): Promise<any> =>
    to.translation("/v3/voice/realtime", {
      json: {
        source_media_content_type: "audio/pcm;encoding=s16le;rate=16000",
        source_language: "en",
        target_languages: ["de"],
        spoken_terms_id: facts["aids"].terms
      }
    })
  const renewed = async (opened: any): Promise<any> =>
    to.translation(`/v3/voice/realtime?token=${encodeURIComponent(opened.token)}`)
  const heard = await session()
  await closed(await listening(to, heard, 4))
  let often = await session()
  for (let i = 0; i < 26; i++) {
    await closed(await listening(to, often, 0))
    often = await renewed(often)
  }
  facts["voice"] = { heard, often, unopened: await session() }

  // What is under way when the process is killed.
  facts["hooks"].resting = await webhook(to, "resting", "OrderUpdated")
  facts["hooks"].sending = await webhook(to, "sending", "CustomerUpdated")
  outside.broken.add("/hooks/resting")
  outside.silent.add("/hooks/sending")
  await to.store(`orders/${facts["store"].orders}`, { method: "PUT", json: { admin_comments: "changed" } })
  await to.store(`customers/${facts["store"].customers}`, { method: "PUT", json: { last_name: "Changed" } })
  await until(
    "a rest",
    async () => (await to.phase("webhook-delivery", String(facts["hooks"].resting))) === "Resting"
  )
  facts["documents"].translating = await document(
    to,
    Array.from({ length: 1_200 }, (_, i) =>
      i < 1_190 ? `Line ${i} of many.` : `Line ${i} never comes.`
    ).join("\n"),
    "translating.txt"
  )
  await documentIs(to, facts["documents"].translating, "translating")
  const blobs = join(to.place.data, "blobs")
  await until("a checkpoint", async () => readdirSync(blobs).some((name) => name.includes(".segments.")))
  facts["documents"].queued = [
    await document(to, "This never comes.", "second.txt"),
    await document(to, "This never comes either, never comes.", "third.txt")
  ]
  outside.silent.add("/openai/audio/transcriptions")
  const processing = await voiceJob(to, 3)
  await good(voiceUpload(to, processing), 204)
  await voiceIs(to, processing.job_id, "processing")
  facts["voiceJobs"].processing = processing.job_id
  const halted = await chat(to, { model: "outside/halting", input: "stops after a word", background: true })
  const abort = new AbortController()
  const halting = await fetch(`${to.program.url}/v1/responses`, {
    method: "POST",
    signal: abort.signal,
    headers: { authorization: "Bearer chat-key-one", "content-type": "application/json" },
    body: JSON.stringify({
      model: "outside/halting",
      input: "stops after a word, heard",
      background: true,
      stream: true
    })
  })
  const reader = halting.body!.getReader()
  let said = ""
  while (!said.includes("heard ")) said += new TextDecoder().decode((await reader.read()).value)
  facts["chat"].held = facts["heldResponse"]
  facts["chat"].halted = halted.id
  facts["chat"].haltedStream = /"id":"(resp_[0-9a-f]+)"/.exec(said)![1]
  await sleep(400)
  // Its text is said, translated and not delivered: nobody listens any more.
  const left = await session()
  const socket = await listening(to, left, 0)
  const pcm = spoken(4)
  outside.silent.delete("/openai/audio/transcriptions")
  outside.transcribingMs = 500
  for (let at = 0; at < pcm.length; at += 6_400)
    socket.send(
      JSON.stringify({ source_media_chunk: { data: pcm.subarray(at, at + 6_400).toString("base64") } })
    )
  await until("all sound is sent", async () => socket.bufferedAmount === 0)
  await sleep(200)
  socket.terminate()
  await until("what nobody hears", async () => {
    const live = (await to.actors()).actors.filter(({ kind }: any) => kind === "voice-session")
    const states = await Promise.all(live.map(({ id }: any) => to.actor("voice-session", id)))
    return (
      states.filter(({ state }) => state.undelivered?.length >= 2 && state.untranslated.length === 0)
        .length >= 1
    )
  })
  outside.transcribingMs = 0
  facts["voice"].left = left

  const big = await imported(to, "to be deleted", 4_000)
  const large = tmx(6_000)
  const importing = await declared(to, large, "importing")
  const exporting = await imported(to, "exporting", 6_000)
  await good(uploaded(to, importing, large), 200)
  const [exportJob, evaluation] = await Promise.all([
    to.translation(`/v3/translation_memories/${exporting.memory}/export`, { method: "POST" }),
    quality(to),
    good(to.call(`/v3/translation_memories/${big.memory}`, to.key({ method: "DELETE" })), 204),
    good(
      to.call(`/v1/responses/${facts["chat"].forgotten}`, {
        method: "DELETE",
        headers: { authorization: "Bearer chat-key-one" }
      })
    )
  ])
  const endMs = to.program.nowMs
  await to.program.kill()
  abort.abort()
  socket.removeAllListeners()
  facts["cut"] = {
    importing: importing.job_id,
    exporting: exportJob.job_id,
    quality: evaluation.job_id,
    exportingMemory: exporting.memory,
    deletedMemory: big.memory
  }
  facts["recordedMs"] = endMs
  // As the program writes it when the store refuses: `doomed` must be over after the next start.
  const doomed = Buffer.from(facts["families"].doomed.refresh_token.split(".")[1], "base64url").toString(
    "hex"
  )
  appendFileSync(
    join(to.place.data, "revocation-intents"),
    `${doomed.slice(0, 8)}-${doomed.slice(8, 12)}-${doomed.slice(12, 16)}-${doomed.slice(16, 20)}-${doomed.slice(20)}\n`
  )
  outside.silent.clear()
  outside.broken.clear()
  outside.silentText = undefined
  return to
}
const plain = async (outside: Outside): Promise<Making> => {
  const to = new Making(workshop, outside, "plain")
  const { facts } = to
  await to.up()
  await consoleOf(to, "admin", "a made-up console password")
  facts["plainPrefix"] = true
  const { token } = facts["storeApp"]
  const customer = await to.store("customers", { json: { email: "plain@example.com", store_id: 1 } }, token)
  const card = await to.store(
    "credit_cards",
    { json: { customer_id: customer.id, card_number: "4242424242424242" } },
    token
  )
  const product = await to.store(
    "products",
    {
      json: {
        item_name: "Plain",
        item_number: "PLAIN-1",
        product_status_id: 1,
        primary_category_id: 1,
        price: 1,
        e_product_password: "plain e-product password"
      }
    },
    token
  )
  facts["store"] = { customers: customer.id, credit_cards: card.id, products: product.id }
  facts["plainResponse"] = (
    await good(to.call("/v1/responses", { json: { model: "local/echo", input: "a plain word" } }))
  ).id
  facts["recordedMs"] = to.program.nowMs
  await to.program.stop()
  return to
}

const packed = async ({ place }: Making, name: string, facts: Known): Promise<void> => {
  const folder = join(work, `${name}-packed`)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const at: Place = { ...place, clockMs: facts["recordedMs"] }
  // The program's own backup of a stopped folder: what lies there, without the pages that were given back.
  await command(at, ["--url", "http://localhost:1", "backup", folder])
  for (const file of ["master.key", "local.sealed", "revocation-intents"])
    if (existsSync(join(place.data, file))) cpSync(join(place.data, file), join(folder, file))
  rmSync(join(folder, "store.lmdb-lock"), { force: true })
  execFileSync("tar", [
    "--format=ustar",
    "--sort=name",
    "--owner=0",
    "--group=0",
    "--numeric-owner",
    "--mtime=@0",
    "-cf",
    join(work, `${name}.tar`),
    "-C",
    folder,
    "."
  ])
  execFileSync("gzip", ["-9", "-n", "-f", join(work, `${name}.tar`)])
  cpSync(join(work, `${name}.tar.gz`), join(target, `${name}.tar.gz`))
  console.log(name, statSync(join(target, `${name}.tar.gz`)).size, "bytes")
}

/** JSON with a line for each member of a member, so that a change shows as what it is. */
const inLines = (value: object): string =>
  `{\n${Object.entries(value)
    .map(
      ([name, part]) =>
        `${JSON.stringify(name)}: {\n${Object.entries(part as object)
          .map(([key, one]) => `${JSON.stringify(key)}: ${JSON.stringify(one)}`)
          .join(",\n")}\n}`
    )
    .join(",\n")}\n}\n`

/** What the program says about its own data: whatever is not the same three times is what time and chance make. */
const record = async (outside: Outside, name: string): Promise<void> => {
  const facts = JSON.parse(readFileSync(join(target, `${name}.known.json`), "utf8")) as Known
  const answers: Array<Transcript> = []
  let before: Inventory | undefined
  for (const [round, waitMs] of [0, 1_300, 12_000].entries()) {
    const data = join(work, `${name}-${round}`, "data")
    mkdirSync(join(work, `${name}-${round}`))
    unpack(join(target, `${name}.tar.gz`), data)
    before = await inventoryOf(data)
    answers.push(
      await asked({
        place: {
          root,
          tools,
          data,
          config: join(target, `${name}.yaml`),
          outside,
          clockMs: facts["recordedMs"] + laterMs + waitMs
        },
        facts: facts,
        name
      })
    )
  }
  writeFileSync(join(target, `${name}.expected.json`), inLines({ before, ...masked(answers) }))
}

const triesMax = 5
const isWhole = async (): Promise<boolean> => {
  const { newest, tables: found } = await inventoryOf(join(work, "full-packed"))
  const missing = [
    ...Object.entries(newestTags).flatMap(([kind, tags]) =>
      tags.filter((tag) => newest[kind]?.includes(tag) !== true)
    ),
    ...["translation-garbage", "chat-forgotten", "chat-background"].filter((table) => !(table in found))
  ]
  if (missing.length > 0) console.log("not in it:", missing.join(", "))
  return missing.length === 0
}

const outside = await Outside.open()
try {
  for (const [name, make] of [
    ["plain", plain],
    ["full", full]
  ] as const) {
    if (only !== "record") {
      let making = await make(outside)
      await packed(making, name, making.facts)
      // Whether the kill fell into the middle of the work is a matter of luck.
      for (let again = 0; name === "full" && !(await isWhole()); again++) {
        if (again === triesMax) throw new Error("the kill never falls where it should")
        rmSync(join(work, name), { recursive: true })
        making = await make(outside)
        await packed(making, name, making.facts)
      }
      writeFileSync(join(target, `${name}.known.json`), `${JSON.stringify(making.facts, undefined, 2)}\n`)
    }
    await record(outside, name)
  }
} finally {
  await outside.close()
  rmSync(work, { recursive: true, force: true })
}
