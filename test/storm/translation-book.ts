/** Glossaries, documents that are translated across restarts, imports of memories, and jobs of voice that wait
 *  for their file. Source: docs/spec/translation.md, docs/spec/documents.md. */
import { oneOf, random, sampleOf, type Book, type Violations } from "./book.ts"
import type { Caller } from "./caller.ts"

interface Glossary {
  readonly name: string
  /** Unknown while the answer to its creation is lost. */
  id?: string
  deleted: "no" | "yes" | "perhaps"
}

interface Upload {
  readonly id: string
  readonly key: string
  readonly text: string
}

const glossariesMax = 60
const jobsMax = 200
const checked = 8
/** Beyond these, uploads wait until the earlier ones are done. */
const documentsMax = 20
const patienceMs = 60_000

export class TranslationBook implements Book {
  readonly name = "translation"
  promises = 0
  readonly acts: ReadonlyArray<() => Promise<void>>
  private readonly glossaries: Array<Glossary> = []
  private readonly documents: Array<Upload> = []
  private readonly imports: Array<string> = []
  private readonly caller: Caller
  private readonly violations: Violations
  private readonly headers: Readonly<Record<string, string>>
  private turns = 0

  constructor(caller: Caller, violations: Violations, key: string) {
    this.caller = caller
    this.violations = violations
    this.headers = { Authorization: `DeepL-Auth-Key ${key}` }
    this.acts = [
      () => this.create(),
      () => this.remove(),
      () => this.upload(),
      () => this.translate(),
      () => this.importMemory()
    ]
  }

  private async create(): Promise<void> {
    await this.rest()
    if (this.live().length >= glossariesMax) return
    const glossary: Glossary = { name: `glossary ${this.turns++}`, deleted: "no" }
    this.glossaries.push(glossary)
    const reply = await this.caller.call("/v2/glossaries", {
      headers: this.headers,
      body: {
        name: glossary.name,
        source_lang: "en",
        target_lang: "de",
        entries: `${glossary.name}\tWort`,
        entries_format: "tsv"
      }
    })
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(reply.status === 201, () => `translation: a glossary was answered ${reply.text}`)
    if (reply.status !== 201) return
    glossary.id = reply.body.glossary_id
    this.promises++
  }

  private async remove(): Promise<void> {
    await this.rest()
    const live = this.live()
    if (live.length < glossariesMax / 2) return
    const glossary = oneOf(live)!
    glossary.deleted = "perhaps"
    const reply = await this.caller.call(`/v2/glossaries/${glossary.id}`, {
      method: "DELETE",
      headers: this.headers
    })
    if (reply === undefined || reply.status === 429 || reply.status >= 500) return
    this.violations.unless(reply.status === 204, () => `translation: a deletion was answered ${reply.text}`)
    glossary.deleted = "yes"
    this.promises++
  }

  private async upload(): Promise<void> {
    await this.rest()
    if (this.documents.length >= documentsMax) return
    const text = `document ${this.turns++}`
    const form = [
      '--b\r\nContent-Disposition: form-data; name="source_lang"\r\n\r\nBE\r\n',
      '--b\r\nContent-Disposition: form-data; name="target_lang"\r\n\r\nDE\r\n',
      `--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n${text}\r\n--b--\r\n`
    ].join("")
    const reply = await this.caller.call("/v2/document", {
      headers: { ...this.headers, "Content-Type": "multipart/form-data; boundary=b" },
      body: form
    })
    if (reply?.status !== 200) return
    this.documents.push({ id: reply.body.document_id, key: reply.body.document_key, text })
    this.promises++
  }

  /** Load beside the rest: nothing of it is kept. */
  private async translate(): Promise<void> {
    const text = `text ${this.turns++}`
    const reply = await this.caller.call("/v2/translate", {
      headers: this.headers,
      body: { text: [text], source_lang: "BE", target_lang: "DE" }
    })
    if (reply?.status === 200)
      this.violations.unless(
        reply.body.translations[0].text === text.toUpperCase(),
        () => `translation: "${text}" was answered ${reply.text}`
      )
    await this.rest()
  }

  private async importMemory(): Promise<void> {
    await this.rest()
    if (this.imports.length >= jobsMax) return
    const name = `memory ${this.turns++}`
    const file = `<?xml version="1.0"?><tmx version="1.4"><header creationtool="t" creationtoolversion="1" segtype="sentence" o-tmf="t" adminlang="en" srclang="en" datatype="plaintext"/><body><tu><tuv xml:lang="en"><seg>${name}</seg></tuv><tuv xml:lang="de"><seg>Satz</seg></tuv></tu></body></tmx>`
    const begun = await this.caller.call("/v3/translation_memories/import", {
      headers: this.headers,
      body: {
        source_file: { file_name: "memory.tmx", content_length: Buffer.byteLength(file) },
        parameters: { display_name: name }
      }
    })
    if (begun?.status !== 202) return
    this.promises++
    this.imports.push(begun.body.job_id)
    await this.caller.call(begun.body.upload_url, {
      method: "PUT",
      headers: { "Content-Type": "application/xml" },
      body: file
    })
  }

  private live(): ReadonlyArray<Glossary> {
    return this.glossaries.filter(({ id, deleted }) => id !== undefined && deleted === "no")
  }

  /** The key has 100 calls a second. */
  private rest(): Promise<void> {
    return new Promise((resolve) => {
      setTimeout(resolve, 50 + random(100))
    })
  }

  async check(isWhole: boolean): Promise<void> {
    await this.checkGlossaries()
    await this.checkDocuments(isWhole)
    for (const id of sampleOf(this.imports, checked, isWhole)) {
      const { status, text } = await this.caller.answer(`/v3/translation_memories/jobs/${id}`, {
        headers: this.headers
      })
      this.violations.unless(
        status === 200 && !text.includes('"failed"'),
        () => `translation: the import ${id} is ${status} ${text}`
      )
    }
  }

  private async checkGlossaries(): Promise<void> {
    const { body } = await this.caller.answer("/v2/glossaries", { headers: this.headers })
    const found = new Map<string, string>()
    for (const { name, glossary_id } of body.glossaries) {
      this.violations.unless(!found.has(name), () => `translation: "${name}" is there twice`)
      found.set(name, glossary_id)
    }
    for (const glossary of this.glossaries) {
      const id = found.get(glossary.name)
      if (glossary.deleted === "perhaps") glossary.deleted = id === undefined ? "yes" : "no"
      // A lost answer to its creation: the list says whether it is there, from now on for good.
      if (glossary.id === undefined && id === undefined) glossary.deleted = "yes"
      if (id !== undefined) glossary.id ??= id
      this.violations.unless(
        glossary.deleted === "yes" ? id === undefined : id === glossary.id,
        () => `translation: "${glossary.name}", deleted "${glossary.deleted}", is ${String(id)}`
      )
    }
    const deleted = this.glossaries.filter(({ deleted: state }) => state === "yes")
    for (const glossary of deleted.slice(0, -jobsMax))
      this.glossaries.splice(this.glossaries.indexOf(glossary), 1)
  }

  /** Each is known; one that is done holds what it must, and then leaves the book. */
  private async checkDocuments(isWhole: boolean): Promise<void> {
    const untilMs = Date.now() + (isWhole ? patienceMs : 0)
    do {
      for (const document of this.documents.slice()) await this.look(document)
    } while (this.documents.length > 0 && Date.now() < untilMs)
    this.violations.unless(
      !isWhole || this.documents.length === 0,
      () => `translation: ${this.documents.length} documents are never done`
    )
  }

  private async look(document: Upload): Promise<void> {
    const ask = (path: string) =>
      this.caller.answer(`/v2/document/${document.id}${path}`, {
        headers: this.headers,
        body: { document_key: document.key }
      })
    const { status, body, text } = await ask("")
    this.violations.unless(
      status === 200 && body.status !== "error",
      () => `translation: the document ${document.id} is ${status} ${text}`
    )
    if (status === 200 && body.status !== "done" && body.status !== "error") return
    this.documents.splice(this.documents.indexOf(document), 1)
    if (body?.status !== "done") return
    const result = await ask("/result")
    this.violations.unless(
      result.status === 200 && result.text === document.text.toUpperCase(),
      () => `translation: the result of ${document.id} is ${result.status} ${result.text}`
    )
  }
}
