/** What the translation service is asked: texts, what customers keep, jobs, documents; and live sessions. */
import { WebSocket } from "ws"
import type { Asking } from "../program.ts"
import { soundOf } from "../sound.ts"
import type { Asked } from "./asked.ts"

export const askTranslation = async (to: Asked): Promise<void> => {
  const { facts, program } = to
  const key = (asking: Asking = {}, secret: string = facts["developerKey"]): Asking => ({
    ...asking,
    headers: { authorization: `DeepL-Auth-Key ${secret}`, ...asking.headers }
  })
  const ask = (path: string, asking: Asking = {}, name?: string): Promise<any> =>
    to.ask(path, key(asking), name)
  const json = async (path: string, asking: Asking = {}): Promise<any> =>
    (await program.call(path, key(asking))).body
  await to.until(
    "the translator is ready",
    async () =>
      (
        await program.call(
          "/v2/translate",
          key({ json: { text: ["x"], source_lang: "EN", target_lang: "DE" } })
        )
      ).status === 200
  )

  await ask("/v2/usage")
  await ask("/v2/languages?type=target")
  const admin = (asking: Asking = {}): Asking => key(asking, facts["adminKey"])
  await to.ask("/v2/admin/developer-keys", admin())
  await to.ask("/v2/admin/analytics?start_date=2026-11-19&end_date=2026-11-21&group_by=key_and_day", admin())
  await to.ask(
    "/v2/admin/analytics/custom-tags?start_date=2026-11-19&end_date=2026-11-21&aggregate_by=day",
    admin()
  )
  await to.ask(
    "/v2/usage",
    key({}, facts["keys"].limited.api_key ?? facts["keys"].limited.key),
    "usage of the limited key"
  )
  await to.ask(
    "/v2/usage",
    key({}, facts["keys"].dead.api_key ?? facts["keys"].dead.key),
    "usage of the deactivated key"
  )

  const { glossary, legacy, style, terms } = facts["aids"]
  for (const path of [
    "/v3/glossaries",
    `/v3/glossaries/${glossary}`,
    `/v3/glossaries/${glossary}/entries?source_lang=en&target_lang=de`,
    "/v2/glossaries",
    `/v2/glossaries/${legacy}`,
    "/v3/style_rules?detailed=true",
    `/v3/style_rules/${style}`,
    "/v3/spoken-terms",
    `/v3/spoken-terms/${terms}`,
    `/v3/spoken-terms/${terms}/entries?lang=en`
  ])
    await ask(path)
  await to.ask(`/v2/glossaries/${legacy}/entries`, key({ headers: { accept: "text/tab-separated-values" } }))
  const text = (more: object): Asking => ({
    json: {
      text: ["An apple. A ship...", "Segment number 5 of the memory"],
      source_lang: "EN",
      target_lang: "DE",
      ...more
    }
  })
  await ask(
    "/v2/translate",
    text({ glossary_id: glossary, style_id: style }),
    "translate with a glossary and a style"
  )
  await ask(
    "/v2/translate",
    text({ translation_memory_id: facts["memory"].memory, translation_memory_threshold: 75 }),
    "translate with a memory"
  )

  // Jobs of memories: what was cut goes on by itself.
  const memories = "/v3/translation_memories"
  const { memory, awaiting, cut } = facts as {
    readonly memory: any
    readonly awaiting: any
    readonly cut: any
  }
  const isDone = (id: string) => async (): Promise<boolean> =>
    (await json(`${memories}/jobs/${id}`)).results?.[0]?.status !== "processing"
  await to.until("the import that was cut", isDone(cut.importing))
  await to.until("the export that was cut", isDone(cut.exporting))
  for (const [name, id] of Object.entries({
    kept: memory.job,
    exported: memory.exported,
    awaiting: awaiting.job_id,
    broken: facts["brokenImport"],
    old: facts["oldExport"],
    importing: cut.importing,
    exporting: cut.exporting
  }))
    await ask(`${memories}/jobs/${id}`, {}, `memory job: ${name}`)
  for (const address of to.before.actors.filter((one) => one.startsWith("memory-job/")))
    await json(`${memories}/jobs/${address.slice(11)}`)
  await ask(memories)
  await ask(`${memories}/${memory.memory}/segments`)
  await ask(`${memories}/${cut.deletedMemory}`)
  await ask(`${memories}/${facts["oldMemory"]}/segments?page_size=2`)
  await to.ask(memory.download)
  const cutExport = (await json(`${memories}/jobs/${cut.exporting}`)).results[0].download_url as string
  const file = await program.call(new URL(cutExport).pathname)
  to.say("segments of the export that was cut", file.text.split("<tu>").length - 1, file.status)
  await to.ask(
    new URL(awaiting.upload_url).pathname,
    { method: "PUT", headers: { "content-type": "application/xml" }, raw: awaiting.file },
    "upload of the awaited file"
  )
  await to.until("the awaited import", isDone(awaiting.job_id))
  await ask(`${memories}/jobs/${awaiting.job_id}`, {}, "memory job: awaited, then imported")

  // Evaluations, voice jobs.
  for (const [name, id] of Object.entries({
    new: facts["quality"],
    old: facts["oldQuality"],
    cut: cut.quality
  })) {
    await to.until(
      `evaluation ${name}`,
      async () => (await program.call(`/v1/quality-evaluation/${id}`, key())).status !== 202
    )
    await ask(`/v1/quality-evaluation/${id}`, {}, `evaluation: ${name}`)
  }
  const { voiceJobs: jobs } = facts
  const job = (id: string): string => `/v1/jobs/voice/translate/${id}`
  const ended = (id: string) => async (): Promise<boolean> =>
    (await json(job(id))).results.every(({ status }: any) => !["pending", "processing"].includes(status))
  await to.until("the voice job that was cut", ended(jobs.processing))
  for (const name of ["complete", "partly", "processing"])
    await ask(job(jobs[name]), {}, `voice job: ${name}`)
  await ask(job(jobs.waiting.id), {}, "voice job: waiting")
  await ask(job(facts["lateVoiceJob"]), {}, "voice job: late")
  for (const [i, { path, signature }] of jobs.results.entries())
    await to.ask(
      path,
      { headers: { authorization: `DeepL-Signature ${signature}` } },
      `voice job: result ${i}`
    )
  await to.ask(
    jobs.waiting.path,
    {
      method: "PUT",
      headers: {
        authorization: `DeepL-Signature ${jobs.waiting.signature}`,
        "content-type": "application/octet-stream"
      },
      raw: soundOf(jobs.waiting.seconds)
    },
    "upload of the awaited sound"
  )
  await to.until("the awaited voice job", ended(jobs.waiting.id))
  await ask(job(jobs.waiting.id), {}, "voice job: awaited, then complete")

  // Documents: the key opens what was sealed, a checkpoint is not translated again.
  const { documents } = facts
  const state = (handle: any): Promise<any> =>
    json(`/v2/document/${handle.document_id}`, { json: { document_key: handle.document_key } })
  const show = async (name: string, handle: any): Promise<void> => {
    await ask(
      `/v2/document/${handle.document_id}`,
      { json: { document_key: handle.document_key } },
      `document: ${name}`
    )
  }
  await show("done", documents.done)
  await show("taken", documents.taken)
  if (facts["failedDocument"] !== undefined) await show("failed", facts["failedDocument"])
  const heardBefore = to.outside.heard.length
  for (const [name, handle] of Object.entries({
    locked: documents.locked,
    translating: documents.translating,
    second: documents.queued[0],
    third: documents.queued[1]
  })) {
    await to.until(`document ${name}`, async () => (await state(handle)).status === "done")
    await show(name, handle)
  }
  const asked = to.outside.heard
    .slice(heardBefore)
    .filter(({ path }) => path === "/deepl/v2/translate")
    .reduce(
      (sum, { text: body }) =>
        sum + (JSON.parse(body) as { readonly text: ReadonlyArray<string> }).text.length,
      0
    )
  to.say("of 1,203 lines a checkpoint holds at least 500", asked > 0 && asked < 703)
  for (const [name, handle] of Object.entries({
    done: documents.done,
    translating: documents.translating,
    third: documents.queued[1]
  }))
    await ask(
      `/v2/document/${(handle as any).document_id}/result`,
      { json: { document_key: (handle as any).document_key } },
      `result of the document: ${name}`
    )
  for (const handle of [documents.done, documents.translating, documents.queued[1]])
    await to.until(
      "it is gone",
      async () =>
        (
          await program.call(
            `/v2/document/${handle.document_id}`,
            key({ json: { document_key: handle.document_key } })
          )
        ).status === 404
    )
  await ask("/v2/usage", {}, "usage after the downloads")
}

/** Live sessions: what was concluded and not delivered is delivered on the next connection, once. */
export const askVoice = async (to: Asked): Promise<void> => {
  const { facts, program } = to
  const headers = { authorization: `DeepL-Auth-Key ${facts["developerKey"]}` }
  const hear = async (name: string, token: string): Promise<void> => {
    const heard: Array<any> = []
    const socket = new WebSocket(
      `${program.url.replace("http", "ws")}/v3/voice/realtime/connect?token=${token}`
    )
    socket.on("message", (data: Buffer) => heard.push(JSON.parse(data.toString())))
    const code = new Promise<number>((resolve) => {
      socket.on("close", resolve)
    })
    const refused = await new Promise<string | undefined>((resolve) => {
      socket.on("open", () => resolve(undefined)).on("error", (cause) => resolve(cause.message))
    })
    if (refused !== undefined) return to.say(`live session: ${name}`, refused)
    socket.send(JSON.stringify({ end_of_source_media: {} }))
    to.say(`live session: ${name}`, {
      code: await code,
      texts: heard.flatMap((message) =>
        Object.entries(message).flatMap(([what, { language, concluded }]: any) =>
          (concluded ?? []).map(
            ({ text, start_time: start, end_time: end }: any) => `${what} ${language} ${start} ${end} ${text}`
          )
        )
      )
    })
  }
  const { unopened, heard, often, left } = facts["voice"]
  await hear("never opened", unopened.token)
  for (const [name, session] of Object.entries({ heard, often, left })) {
    const renewed = await program.call(
      `/v3/voice/realtime?token=${encodeURIComponent((session as any).token)}`,
      { headers }
    )
    to.say(`live session, renewed: ${name}`, Object.keys(renewed.body ?? {}), renewed.status)
    await to.look(`renewed ${name}`, "voice-session")
    await hear(name, renewed.body?.token ?? "")
    await hear(`${name}, by the token before`, (session as any).token)
  }
}
