/** Frames of a server-sent event stream, as text.
 *  Source: HTML standard, section 9.2; docs/spec/chat.md, sections 8 and 10. */

/** Writes one frame; `data` is one line (JSON text). */
export const frame = (data: string): string => `data: ${data}\n\n`

export const namedFrame = (event: string, data: string): string => `event: ${event}\ndata: ${data}\n\n`
export const comment = (text: string): string => `: ${text}\n\n`
export const doneFrame = "data: [DONE]\n\n"

export const sseHeaders: ReadonlyArray<readonly [string, string]> = [
  ["Content-Type", "text/event-stream; charset=utf-8"],
  ["Cache-Control", "no-cache, no-transform"],
  ["X-Accel-Buffering", "no"]
]
