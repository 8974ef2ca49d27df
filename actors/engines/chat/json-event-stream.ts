/** Calls a model server whose answer is a stream of JSON events (SSE), as Anthropic's and OpenAI's newer
 *  interfaces have it. It is guaranteed that a connection which breaks after the end of the answer causes no
 *  fault. Source: docs/spec/chat.md, sections 13.2, 13.3 and 17.2. */
import type { Abort } from "./abort.ts"
import type { CallFlow, HttpClient } from "./http-client.ts"
import { badResponse, type ModelSink } from "./model.ts"
import { SseReader, utf8 } from "./sse-reader.ts"

export interface JsonEventStream {
  readonly path: string
  readonly body: string
  readonly sink: ModelSink
  /** True for data that need not be parsed at all. */
  readonly isIgnored: (payload: string) => boolean
  /** True for an event that is a sign of an answer: a fault before the first such event may be retried. */
  readonly isAnswer: (event: any) => boolean
  readonly read: (event: any) => void
  /** True once the answer is complete: nothing that follows is waited for. */
  readonly isWhole: () => boolean
}

const parsed = (payload: string): any => {
  try {
    return JSON.parse(utf8(payload))
  } catch {
    throw badResponse("an event is not JSON")
  }
}

export const streamJsonEvents = async (
  client: HttpClient,
  { path, body, sink, isIgnored, isAnswer, read, isWhole }: JsonEventStream,
  signal: Abort
): Promise<void> => {
  let answered = false
  let flow: CallFlow | undefined
  const sse = new SseReader((payload) => {
    if (isIgnored(payload)) return
    const event = parsed(payload)
    if (!answered && isAnswer(event)) {
      answered = true
      sink.onFirstEvent(flow)
    }
    read(event)
  })
  await client
    .send(
      "POST",
      path,
      body,
      {
        head: (_, __, control) => {
          flow = control
        },
        data: (bytes, from, to) => {
          sse.push(bytes, from, to)
          sink.flush()
          if (isWhole()) flow!.enough()
        }
      },
      signal
    )
    .catch((fault: unknown) => {
      if (!isWhole()) throw fault
    })
  sse.end()
}
