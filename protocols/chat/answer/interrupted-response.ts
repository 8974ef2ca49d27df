/** A background response that a restart ended: stored as failed, with the last event of its stream.
 *  Source: docs/spec/chat.md, sections 9.5 and 16. */
import type { Json } from "../request/json-body.ts"
import type { TurnsDeps } from "../turn/turn.ts"
import type { Sessions, StoredEvent, UnfinishedResponse } from "./sessions.ts"

/** Marks an open item as incomplete, as in any other failed response. */
const closedItem = (item: Json): Json =>
  item["status"] === "in_progress" ? { ...item, status: "incomplete" } : item

const failedObject = (record: UnfinishedResponse["record"], message: string): Json => {
  const object = JSON.parse(record.object) as Json
  return {
    ...object,
    status: "failed",
    output: (object["output"] as ReadonlyArray<Json>).map(closedItem),
    error: { code: "server_error", message }
  }
}

const failedEvent = (response: Json, sequence: number): StoredEvent => {
  const type = "response.failed"
  return { type, data: JSON.stringify({ type, sequence_number: sequence, response }) }
}

export const failUnfinished = async (
  sessions: Sessions,
  { id, record }: UnfinishedResponse,
  { message, log }: { readonly message: string; readonly log: TurnsDeps["log"] }
): Promise<void> => {
  const failed = failedObject(record, message)
  const eventsFrom = sessions.events(id, -1).length
  try {
    await sessions.commit({
      id,
      record: { ...record, status: "failed", object: JSON.stringify(failed) },
      eventsFrom,
      events: record.streamed ? [failedEvent(failed, eventsFrom)] : []
    })
  } catch (fault) {
    log("error", "a background response could not be ended", { response: id, cause: fault })
  }
}
