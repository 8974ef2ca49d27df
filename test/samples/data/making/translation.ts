/** Fills the translation service: keys, glossaries, memories, style lists, terms; jobs and documents in every state; live sessions. */
import { WebSocket } from "ws"
import type { Answer, Asking } from "../program.ts"
import { soundOf, spoken } from "../sound.ts"
import { good, until, type Making } from "./making.ts"

export const tmx = (units: number): string =>
  `<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header creationtool="sample" creationtoolversion="1" segtype="sentence" o-tmf="x" adminlang="en" srclang="en" datatype="plaintext"/><body>${Array.from(
    { length: units },
    (_, i) =>
      `<tu><tuv xml:lang="en"><seg>Segment number ${i} of the memory</seg></tuv><tuv xml:lang="de"><seg>Segment Nummer ${i} des Speichers</seg></tuv></tu>`
  ).join("")}</body></tmx>`

const ended = (to: Making, id: string): Promise<any> =>
  until(`job ${id}`, async () => {
    const job = await to.translation(`/v3/translation_memories/jobs/${id}`)
    return ["processing", "awaiting_input"].includes(job.results[0].status) ? undefined : job
  })
export const declared = (to: Making, file: string, name: string): Promise<any> =>
  to.translation("/v3/translation_memories/import", {
    json: {
      source_file: { file_name: `${name}.tmx`, content_length: Buffer.byteLength(file) },
      parameters: { display_name: name }
    }
  })
const pathOf = (url: string): string => {
  const { pathname, search } = new URL(url)
  return pathname + search
}
export const uploaded = (to: Making, job: any, file: string): Promise<Answer> =>
  to.call(pathOf(job.upload_url), {
    method: "PUT",
    headers: { "content-type": "application/xml" },
    raw: file
  })
export const imported = async (
  to: Making,
  name: string,
  units: number
): Promise<{ readonly job: string; readonly memory: string }> => {
  const file = tmx(units)
  const job = await declared(to, file, name)
  await good(uploaded(to, job, file), 200)
  const done = await ended(to, job.job_id)
  return { job: job.job_id, memory: done.results[0].translation_memory_id }
}
export const exported = async (to: Making, memory: string): Promise<any> => {
  const { job_id: id } = await to.translation(`/v3/translation_memories/${memory}/export`, { method: "POST" })
  return ended(to, id)
}
export const document = async (
  to: Making,
  text: string,
  name = "sample.txt",
  more: Record<string, string> = {}
): Promise<any> => {
  const form = new FormData()
  form.set("source_lang", "EN")
  form.set("target_lang", "DE")
  for (const [field, value] of Object.entries(more)) form.set(field, value)
  form.set("file", new Blob([text]), name)
  return to.translation("/v2/document", { raw: form })
}
export const documentIs = (to: Making, handle: any, ...wanted: ReadonlyArray<string>): Promise<any> =>
  until(`document ${wanted.join()}`, async () => {
    const state = await to.translation(`/v2/document/${handle.document_id}`, {
      json: { document_key: handle.document_key }
    })
    return wanted.includes(state.status) && state
  })
export const voiceJob = async (to: Making, seconds: number): Promise<any> => {
  const file = soundOf(seconds)
  const created = await to.translation("/v1/jobs/voice/translate", {
    json: {
      source_file: { name: "sample.wav", content_type: "audio/wav", content_length: file.length },
      parameters: { source_language: "en" },
      targets: [
        { language: "de", type: "text/plain" },
        { language: "en-US", type: "application/x-subrip" }
      ]
    }
  })
  return { ...created, file }
}
export const voiceUpload = (to: Making, created: any): Promise<Answer> =>
  to.call(pathOf(created.upload_url), {
    method: "PUT",
    headers: {
      authorization: `DeepL-Signature ${created.signature}`,
      "content-type": "application/octet-stream"
    },
    raw: created.file
  })
export const voiceIs = (to: Making, id: string, ...wanted: ReadonlyArray<string>): Promise<any> =>
  until(`voice job ${wanted.join()}`, async () => {
    const job = await to.translation(`/v1/jobs/voice/translate/${id}`)
    return job.results.every(({ status }: any) => wanted.includes(status)) && job
  })
export const quality = (to: Making): Promise<any> =>
  to.translation("/v1/quality-evaluation", {
    json: {
      metadata: { source_language: "en", target_language: "de" },
      segments: Array.from({ length: 40 }, (_, i) => ({
        source: `There are ${i} apples.`,
        target: `Es gibt ${i % 7 === 0 ? i + 1 : i} Äpfel.`
      }))
    }
  })

/** One connection of a live session: sends sound, hears text. */
export const listening = async (to: Making, opened: any, seconds: number): Promise<WebSocket> => {
  const socket = new WebSocket(
    `${to.program.url.replace("http", "ws")}${new URL(opened.streaming_url).pathname}?token=${opened.token}`,
    // What it hears it never shows to have read.
    { autoPong: false }
  )
  await new Promise((resolve, reject) => {
    socket.on("open", resolve).on("error", reject)
  })
  let concluded = 0
  socket.on("message", (data: Buffer) => {
    if (/"concluded":\[\{/.test(data.toString())) concluded++
  })
  const pcm = spoken(seconds)
  for (let at = 0; at < pcm.length; at += 6_400)
    socket.send(
      JSON.stringify({ source_media_chunk: { data: pcm.subarray(at, at + 6_400).toString("base64") } })
    )
  if (seconds > 0) await until("concluded text", async () => concluded >= 2 && true)
  return socket
}
export const closed = (socket: WebSocket): Promise<void> =>
  new Promise((resolve) => {
    socket.on("close", () => resolve())
    socket.close()
  })

export const fillTranslation = async (to: Making): Promise<void> => {
  const { facts } = to
  const adminKey = (asking: Asking): Asking => to.key(asking, facts["adminKey"])
  const limited = await good(to.call("/v2/admin/developer-keys", adminKey({ json: { label: "limited" } })))
  await good(
    to.call(
      "/v2/admin/developer-keys/limits",
      adminKey({
        method: "PUT",
        json: { key_id: limited.key_id, characters: 5_000, speech_to_text_milliseconds: 60_000 }
      })
    )
  )
  const dead = await good(to.call("/v2/admin/developer-keys", adminKey({ json: { label: "dead" } })))
  await good(
    to.call("/v2/admin/developer-keys/deactivate", adminKey({ method: "PUT", json: { key_id: dead.key_id } }))
  )
  facts["keys"] = { limited, dead }
  const glossary = await to.translation("/v3/glossaries", {
    json: {
      name: "Sample terms",
      dictionaries: [
        {
          source_lang: "en",
          target_lang: "de",
          entries: "apple\tApfelbaum\nship\tSchiff",
          entries_format: "tsv"
        },
        { source_lang: "en", target_lang: "es", entries: "apple,manzana", entries_format: "csv" }
      ]
    }
  })
  const legacy = await to.translation("/v2/glossaries", {
    json: {
      name: "Of the old kind",
      source_lang: "en",
      target_lang: "fr",
      entries: "ship\tbateau",
      entries_format: "tsv"
    }
  })
  const style = await to.translation("/v3/style_rules", {
    json: {
      name: "House style",
      language: "de",
      configured_rules: { punctuation: { ellipsis: "use_ellipsis_character" } },
      custom_instructions: [{ label: "tone", prompt: "Be brief." }]
    }
  })
  const terms = await to.translation("/v3/spoken-terms", {
    json: { name: "Names", term_lists: [{ lang: "en", entries: "Troupe\nLMDB" }] }
  })
  facts["aids"] = {
    glossary: glossary.glossary_id,
    legacy: legacy.glossary_id,
    style: style.style_id,
    terms: terms.spoken_terms_id
  }
  const memory = await imported(to, "kept", 12)
  await to.translation("/v2/translate", {
    json: {
      text: ["Segment number 3 of the memory"],
      source_lang: "EN",
      target_lang: "DE",
      translation_memory_id: memory.memory,
      translation_memory_threshold: 75
    }
  })
  const exportJob = await exported(to, memory.memory)
  facts["memory"] = {
    ...memory,
    exported: exportJob.job_id,
    download: pathOf(exportJob.results[0].download_url)
  }
  const waiting = tmx(2)
  facts["awaiting"] = { ...(await declared(to, waiting, "awaiting")), file: waiting }
  const broken = await declared(to, "<tmx>not whole", "broken")
  await good(uploaded(to, broken, "<tmx>not whole"), 200)
  await ended(to, broken.job_id)
  facts["brokenImport"] = broken.job_id
  await to.translation("/v2/translate", {
    json: {
      text: ["An apple. A ship."],
      source_lang: "EN",
      target_lang: "DE",
      glossary_id: glossary.glossary_id,
      style_id: style.style_id
    },
    headers: { "x-deepl-reporting-tag": "sample-tag" }
  })
  facts["quality"] = (await quality(to)).job_id
  await until(
    "an evaluation",
    async () => (await to.call(`/v1/quality-evaluation/${facts["quality"]}`, to.key())).status === 200
  )

  const done = await document(to, "A document.\nOf two lines.", "done.txt", {
    glossary_id: glossary.glossary_id
  })
  await documentIs(to, done, "done")
  const failed = await document(to, '{"broken": ', "failed.json").catch(() => undefined)
  if (failed !== undefined) {
    await documentIs(to, failed, "error")
    facts["failedDocument"] = failed
  }
  const taken = await document(to, "Taken already.", "taken.txt")
  await documentIs(to, taken, "done")
  await good(
    to.call(
      `/v2/document/${taken.document_id}/result`,
      to.key({ json: { document_key: taken.document_key } })
    )
  )
  facts["documents"] = { done, taken }

  const complete = await voiceJob(to, 4)
  await good(voiceUpload(to, complete), 204)
  const results = await voiceIs(to, complete.job_id, "complete")
  const first = await voiceJob(to, 2)
  await good(voiceUpload(to, first), 204)
  const partly = await voiceIs(to, first.job_id, "complete")
  await good(
    to.call(pathOf(partly.results[0].download_url), {
      headers: { authorization: `DeepL-Signature ${partly.results[0].signature}` }
    })
  )
  await voiceIs(to, first.job_id, "downloaded", "complete")
  const open = await voiceJob(to, 2)
  facts["voiceJobs"] = {
    complete: complete.job_id,
    results: results.results.map((one: any) => ({
      path: pathOf(one.download_url),
      signature: one.signature
    })),
    partly: first.job_id,
    waiting: { id: open.job_id, path: pathOf(open.upload_url), signature: open.signature, seconds: 2 }
  }
}
