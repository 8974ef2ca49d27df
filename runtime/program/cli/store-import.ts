/** `troupe store import FILE` imports JSON lines into the store by batches, as fast as the rate limit allows.
 *  It reports its progress and which lines were refused. One batch is in memory at a time. */
import { createReadStream } from "node:fs"
import { createInterface } from "node:readline"
import type { Client } from "./client.ts"
import { requestPatiently } from "./patient-request.ts"

export interface ImportOptions {
  readonly resource: string
  readonly singular?: string
  readonly lookupBySku?: boolean
  readonly token?: string
  readonly json: boolean
  readonly headerPrefix: string
}

const rowsMax = 500
const bytesMax = 1_000_000
const triesMax = 20
const refusedShownMax = 20
const saidEvery = 10_000

interface Result {
  readonly line_item: number
  readonly status_code: number
  readonly details?: string
}

/** Imports the file and returns the exit code: 0 when all lines were stored, 1 when some were refused. */
export const storeImport = async (
  { url, secrets }: Client,
  file: string,
  options: ImportOptions
): Promise<number> => {
  const token = options.token ?? secrets?.storeToken
  if (token === undefined)
    throw new Error("no token: give --token, or start the demo store in this data folder")
  const singular =
    options.singular ??
    (options.resource.endsWith("ies")
      ? `${options.resource.slice(0, -3)}y`
      : options.resource.replace(/s$/, ""))
  const startedMs = performance.now()
  const refused: Array<string> = []
  let rows = 0
  let stored = 0
  let line = 0
  let said = 0
  let batch: Array<{ readonly line: number; readonly entry: unknown }> = []
  let bytes = 0

  const refuse = (at: number, why: string): void => {
    rows++
    if (refused.length < refusedShownMax) {
      refused.push(`line ${at}: ${why}`)
      if (!options.json) console.error(`${process.stderr.isTTY === true ? "\r" : ""}line ${at}: ${why}`)
    }
  }
  const progress = (): void => {
    const text = `${rows.toLocaleString("en")} rows, ${(rows - stored).toLocaleString("en")} refused, ${Math.round(rows / ((performance.now() - startedMs) / 1_000)).toLocaleString("en")} a second`
    if (process.stderr.isTTY === true) process.stderr.write(`\r${text}   `)
    else if (rows - said >= saidEvery) {
      said = rows
      console.error(text)
    }
  }
  const send = async (): Promise<void> => {
    if (batch.length === 0) return
    const sent = batch
    batch = []
    bytes = 0
    const body = JSON.stringify(sent.map(({ entry }) => entry))
    for (let tries = 0; tries < triesMax; tries++) {
      const {
        status: answered,
        retryAfter: after = "1",
        text
      } = await requestPatiently({
        method: "POST",
        url: `${url}/api/v1/${options.resource}/importMany`,
        headers: { "Content-Type": "application/json", [`${options.headerPrefix}-Auth-Token`]: token },
        body
      }).catch((cause: Error) => {
        throw new Error(`no server answers at ${url} (${cause.message})`)
      })
      if (answered === 429 || answered === 503) {
        const waitMs = /^\d+$/.test(after) ? Number(after) * 1_000 : Date.parse(after) - Date.now()
        await new Promise((resolve) => setTimeout(resolve, Math.min(30_000, Math.max(50, waitMs))))
        continue
      }
      if (answered !== 200)
        throw new Error(`${answered}: ${(JSON.parse(text) as { details?: string }).details ?? text}`)
      for (const { line_item: at, status_code: status, details } of (
        JSON.parse(text) as { results: ReadonlyArray<Result> }
      ).results) {
        if (status < 400) {
          rows++
          stored++
        } else refuse(sent[at]!.line, details ?? String(status))
      }
      return progress()
    }
    throw new Error("the store stays busy")
  }
  for await (const text of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    line++
    if (text.trim() === "") continue
    let record: unknown
    try {
      record = JSON.parse(text)
    } catch {
      refuse(line, "not valid JSON")
      continue
    }
    const whole =
      typeof record === "object" && record !== null && singular in record ? record : { [singular]: record }
    batch.push({ line, entry: options.lookupBySku === true ? { lookup_by_sku: true, ...whole } : whole })
    bytes += text.length
    if (batch.length >= rowsMax || bytes >= bytesMax) await send()
  }
  await send()
  const seconds = (performance.now() - startedMs) / 1_000
  if (process.stderr.isTTY === true) process.stderr.write("\r")
  console.log(
    options.json
      ? JSON.stringify({ rows, stored, refused: rows - stored, seconds: Math.round(seconds * 10) / 10 })
      : `${stored.toLocaleString("en")} of ${rows.toLocaleString("en")} rows stored in ${seconds.toFixed(1)} s`
  )
  return stored === rows ? 0 : 1
}
