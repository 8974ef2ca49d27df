/** The work of memory jobs: imports a TMX file into rows and exports rows to a TMX file, one batch of rows
 *  per commit, with the event loop free in between. Both can be restarted: an import first removes the rows
 *  of an earlier attempt.
 *  Source: docs/spec/translation.md, section 9.10. */
import { Effect } from "effect"
import { Garbage } from "../../../actors/garbage.ts"
import { exportBlob, Memories, type Imported, type Job, type MemoryPort } from "../../../actors/memory-job.ts"
import { committed, type Store, type Write } from "../../../storage/store.ts"
import { TmxFault, TmxReader, tmxBegin, tmxEnd, tmxUnit, type TmxUnit } from "../../formats/tmx.ts"
import { languageOf } from "../languages.ts"
import {
  exactPlaces,
  exactPrefix,
  exactTable,
  LastUsed,
  MemorySegments,
  type MemorySegment
} from "./records.ts"
import { yieldToEventLoop } from "../../shared/event-loop.ts"

const rowsPerCommit = 1_000
const rowsPerPage = 1_000
const noBytes = new Uint8Array(0)
class Refused extends Error {}

/** Maps a language to our code in lower case, and to its base code where the variant is unknown. */
const codeOf = (language: string): string | undefined => {
  const tag = language.trim().replaceAll("_", "-")
  return (languageOf(tag) ?? languageOf(tag.split("-")[0]!))?.code.toLowerCase()
}

const baseOf = (code: string): string => code.split("-")[0]!

const run = <A>(work: () => Promise<A>): Effect.Effect<A, { readonly message: string }> =>
  Effect.flatMap(
    Effect.promise(() =>
      work().catch((cause: unknown) => {
        if (cause instanceof TmxFault || cause instanceof Refused) return { failed: cause.message }
        throw cause // the store failing: the actor begins anew
      })
    ),
    (outcome) =>
      typeof outcome === "object" && outcome !== null && "failed" in outcome
        ? Effect.fail({ message: String(outcome.failed) })
        : Effect.succeed(outcome as A)
  )

export const memoryWork = (
  store: Store,
  nowMs: () => number,
  forget: (memoryId: string) => void = () => {}
): MemoryPort => {
  async function* unitsOf(
    blob: string
  ): AsyncGenerator<{ readonly reader: TmxReader; readonly units: ReadonlyArray<TmxUnit> }> {
    const bytes = store.blobs.read(blob)
    if (bytes === undefined) throw new Refused("The uploaded file is gone.")
    const reader = new TmxReader()
    for await (const chunk of bytes) {
      yield { reader, units: reader.push(chunk) }
      await yieldToEventLoop()
    }
    yield { reader, units: reader.end() }
  }
  /** Returns the source language of the header, or the one in which most units start. */
  const sourceOf = async (blob: string): Promise<string> => {
    const begins = new Map<string, number>()
    for await (const { reader, units } of unitsOf(blob)) {
      const declared = reader.header?.source
      if (declared !== undefined && declared !== "*all*") {
        const code = codeOf(declared)
        if (code === undefined)
          throw new Refused(`The source language ${declared.slice(0, 40)} is not supported.`)
        return baseOf(code)
      }
      for (const { variants } of units) {
        const code = codeOf(variants[0]?.language ?? "")
        if (code !== undefined) begins.set(baseOf(code), (begins.get(baseOf(code)) ?? 0) + 1)
      }
    }
    const [most] = [...begins].sort((a, b) => b[1] - a[1])
    if (most === undefined) throw new Refused("The file holds no usable translation unit.")
    return most[0]
  }
  const segmentOf = ({ variants }: TmxUnit, source: string): MemorySegment | undefined => {
    const coded = variants.map(({ language, text }) => ({ code: codeOf(language), text }))
    if (coded.some(({ code }) => code === undefined)) return undefined
    const from = coded.find(({ code }) => baseOf(code!) === source)
    if (from === undefined || from.text === "") return undefined
    const targets = new Map(
      coded
        .filter(({ code, text }) => baseOf(code!) !== source && text !== "")
        .map(({ code, text }) => [code!, text])
    )
    return targets.size === 0 ? undefined : { text: from.text, targets: [...targets] }
  }
  const wipe = async (memoryId: string): Promise<void> => {
    for (const table of [MemorySegments.name, exactTable, LastUsed.name]) {
      for (;;) {
        const rows = store.range(table, { prefix: [memoryId], limit: rowsPerCommit })
        if (rows.length === 0) break
        await committed(
          store,
          rows.map(({ key }): Write => ({ _tag: "delete", table, key }))
        )
      }
    }
  }
  const read = async (job: Job, blob: string): Promise<Imported> => {
    const { memoryId } = job
    const source = await sourceOf(blob)
    const languages = new Set<string>()
    await wipe(memoryId)
    let place = 0
    let skipped = 0
    let writes: Array<Write> = []
    const flush = async (): Promise<void> => {
      const now = writes
      writes = []
      if (now.length > 0) await committed(store, now)
    }
    /** Segments that this batch has written, by text; they are not in the store yet. */
    let recent = new Map<string, { readonly place: number; readonly segment: MemorySegment }>()
    const existing = (text: string) =>
      recent.get(text) ??
      exactPlaces(store, memoryId, text).flatMap((at) => {
        const segment = MemorySegments.get(store, [memoryId, at])
        return segment?.text === text ? [{ place: at, segment }] : []
      })[0]
    for await (const { units } of unitsOf(blob)) {
      for (const unit of units) {
        const segment = segmentOf(unit, source)
        if (segment === undefined) {
          skipped++
          continue
        }
        const before = existing(segment.text)
        const at = before?.place ?? place++
        const joined: MemorySegment =
          before === undefined
            ? segment
            : { text: segment.text, targets: [...new Map([...before.segment.targets, ...segment.targets])] }
        for (const [language] of joined.targets) languages.add(language)
        recent.set(segment.text, { place: at, segment: joined })
        writes.push(MemorySegments.put([memoryId, at], joined))
        if (before === undefined)
          writes.push({
            _tag: "put",
            table: exactTable,
            key: [...exactPrefix(memoryId, segment.text), at],
            value: noBytes
          })
        if (writes.length >= rowsPerCommit) {
          await flush()
          recent = new Map()
        }
      }
    }
    await flush()
    if (place === 0) throw new Refused("The file holds no usable translation unit.")
    const atMs = nowMs()
    return {
      skipped,
      memory: {
        memoryId,
        accountId: job.accountId,
        name: job.name ?? job.fileName,
        source,
        targets: [...languages].sort(),
        segments: place,
        createdMs: atMs,
        updatedMs: atMs
      }
    }
  }
  async function* lines({ accountId, memoryId }: Job): AsyncGenerator<Uint8Array> {
    const memory = Memories.get(store, [accountId, memoryId])
    const still = (): void => {
      if (Memories.get(store, [accountId, memoryId]) === undefined)
        throw new Refused("The translation memory was deleted.")
    }
    still()
    yield Buffer.from(tmxBegin(memory!.source))
    for (let after: number | undefined; ;) {
      still()
      const rows = MemorySegments.range(store, {
        prefix: [memoryId],
        limit: rowsPerPage,
        ...(after === undefined ? {} : { after: [memoryId, after] })
      })
      yield Buffer.from(
        rows
          .map(({ value: { text, targets } }) =>
            tmxUnit([
              { language: memory!.source, text },
              ...targets.map(([language, target]) => ({ language, text: target }))
            ])
          )
          .join("")
      )
      if (rows.length < rowsPerPage) break
      after = rows.at(-1)!.key[1] as number
      await yieldToEventLoop()
    }
    yield Buffer.from(tmxEnd)
  }
  let cleaning: Promise<void> | undefined
  const clean = async (): Promise<void> => {
    for (
      let rows = Garbage.range(store, { limit: 100 });
      rows.length > 0;
      rows = Garbage.range(store, { limit: 100 })
    )
      for (const { key } of rows) {
        const [what, id] = key as readonly ["blob" | "memory", string]
        if (what === "blob") await store.blobs.delete(id)
        else {
          forget(id)
          await wipe(id)
        }
        await committed(store, [Garbage.delete(key)])
      }
  }
  return {
    read: (job, blob) => run(() => read(job, blob)),
    write: (job, jobId) =>
      run(async () => {
        const blob = exportBlob(jobId)
        await store.blobs.write(blob, lines(job))
        return { blob }
      }),
    clean: Effect.promise(
      () =>
        (cleaning ??= clean().finally(() => {
          cleaning = undefined
        }))
    )
  }
}
