/** Runs each document in a thread of its own, so that an input that exhausts or crashes its reader ends only
 *  that thread, as a refusal or a failed job. Concurrent inspections, heap and running time of a thread are
 *  limited.
 *  Source: docs/spec/documents.md, sections 10, 11. */
import { Effect, Semaphore, type Scope } from "effect"
import { JobFault, type ExtractedDocument } from "../../../actors/documents/ports.ts"
import { yieldToEventLoop } from "../../shared/event-loop.ts"
import type { ExtractOptions, Segment } from "../../formats/document.ts"
import type { FromDocument, ToDocument } from "../../formats/workers/documents.ts"
import { endedByUs, startThread, type WorkerThread } from "./worker-thread.ts"

const heapMiBMax = 1_024
const inspectMsMax = 10_000
const extractMsMax = 300_000
const rebuildMsMax = 600_000
const inspectionsAtOnce = 2

/** Maximum number of segments copied to the thread in one turn of the event loop. */
const piecesMax = 1_000

const tooLarge = "Invalid file: too large to process"
const processingFailed = "The document could not be processed."

export type Log = (level: "info" | "warn", message: string, fields: Record<string, unknown>) => void
type Thread = WorkerThread<ToDocument, FromDocument>
const start = (): Thread => startThread<ToDocument, FromDocument>("documents", heapMiBMax)

/** Buffers that are transferred instead of copied, where they own their memory. */
const transferable = (
  bytes: Buffer
): { readonly bytes: Uint8Array; readonly transfer: ReadonlyArray<ArrayBuffer> } => {
  const own =
    bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength
      ? new Uint8Array(bytes.buffer as ArrayBuffer)
      : new Uint8Array(bytes)
  return { bytes: own, transfer: [own.buffer as ArrayBuffer] }
}

/** Sends one request to a thread; `heard` is called with its answer. */
const askThread = <A>(
  thread: Thread,
  log: Log,
  msMax: number,
  question: ToDocument,
  transfer: ReadonlyArray<ArrayBuffer>,
  resultOf: (message: FromDocument) => { readonly value: A } | undefined
): Promise<A> =>
  new Promise((resolve, reject) => {
    let settled = false
    const settle = (): void => {
      settled = true
      clearTimeout(timer)
      thread.listen(undefined)
    }
    const fail = (text: string): void => {
      settle()
      reject(new JobFault({ text }))
    }
    const timer = setTimeout(() => {
      thread.kill()
      fail(tooLarge)
    }, msMax)
    thread.onDeath((reason) => {
      if (!settled) {
        if (reason !== endedByUs) log("warn", "a document's thread ended", { reason })
        fail(tooLarge)
      }
    })
    thread.listen((message) => {
      if (message.is === "bad") return fail(message.text)
      if (message.is === "defect") {
        log("warn", "a document's format failed", { at: message.name })
        return fail(processingFailed)
      }
      const found = resultOf(message)
      if (found !== undefined) {
        settle()
        resolve(found.value)
      }
    })
    thread.send(question, transfer as ReadonlyArray<any>)
  })

export class DocumentThreads {
  private readonly log: Log
  private readonly inspections = Semaphore.makeUnsafe(inspectionsAtOnce)

  constructor(log: Log) {
    this.log = log
  }

  /** Fails with the text of the refusal. `read` is called when the inspection starts. An interruption leaves
   *  the queue, or ends the thread. */
  inspect(
    read: () => Promise<Buffer>,
    extension: string,
    source: string | undefined,
    target: string
  ): Effect.Effect<void, JobFault> {
    const inspected = async (thread: Thread): Promise<void> => {
      const { bytes, transfer } = transferable(await read())
      await askThread<undefined>(
        thread,
        this.log,
        inspectMsMax,
        { call: "inspect", bytes, extension, source, target },
        transfer,
        (message) => (message.is === "inspected" ? { value: undefined } : undefined)
      )
    }
    const inspection = Effect.acquireUseRelease(
      Effect.sync(start),
      (thread) => Effect.tryPromise({ try: () => inspected(thread), catch: (cause) => cause }),
      (thread) => Effect.sync(() => thread.kill())
    )
    return this.inspections.withPermit(
      Effect.catch(inspection, (cause) =>
        cause instanceof JobFault ? Effect.fail(cause) : Effect.die(cause)
      )
    )
  }

  work(
    source: Buffer,
    extension: string,
    options: ExtractOptions
  ): Effect.Effect<ExtractedDocument, JobFault, Scope.Scope> {
    const faultOf = (cause: unknown): JobFault =>
      cause instanceof JobFault ? cause : new JobFault({ text: processingFailed })
    const { log } = this
    return Effect.acquireRelease(Effect.sync(start), (thread) => Effect.sync(() => thread.kill())).pipe(
      Effect.flatMap((thread) =>
        Effect.tryPromise({
          try: async (): Promise<ExtractedDocument> => {
            const { bytes, transfer } = transferable(source)
            const segments: Array<Segment> = []
            const characters = await askThread<number>(
              thread,
              log,
              extractMsMax,
              { call: "extract", bytes, extension, options },
              transfer,
              (message) => {
                if (message.is !== "segments") return undefined
                for (const segment of message.segments) segments.push(segment)
                if (!message.last) thread.send({ call: "more" })
                if (message.last && message.warnings.length > 0)
                  log("info", "a document has its limits", { warnings: message.warnings })
                return message.last ? { value: message.characters } : undefined
              }
            )
            return {
              segments,
              characters,
              rebuild: (translated) =>
                Effect.tryPromise({
                  try: async () => {
                    let piece: Array<readonly [number, string]> = []
                    for (const pair of translated) {
                      if (piece.length === piecesMax) {
                        thread.send({ call: "rebuild", translated: piece, last: false })
                        piece = []
                        await yieldToEventLoop()
                      }
                      piece.push(pair)
                    }
                    return askThread<Buffer>(
                      thread,
                      log,
                      rebuildMsMax,
                      { call: "rebuild", translated: piece, last: true },
                      [],
                      (message) =>
                        message.is === "rebuilt"
                          ? {
                              value: Buffer.from(
                                message.bytes.buffer,
                                message.bytes.byteOffset,
                                message.bytes.byteLength
                              )
                            }
                          : undefined
                    )
                  },
                  catch: faultOf
                })
            }
          },
          catch: faultOf
        })
      )
    )
  }
}
