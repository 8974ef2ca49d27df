/** Sends spans to a collector: OTLP as JSON over HTTP. Guarantee: at most `queueMax` spans wait and one request
 *  is on its way, whatever the collector does; one that fails costs one warning, after which nothing is
 *  recorded for a while. Effect's own exporter is not used: it begins an export per full batch however many are
 *  unanswered, and sets them no time limit.
 *  Source: OpenTelemetry protocol 1.x, "JSON Protobuf encoding"; docs/operations.md, "Tracing". */
import { Cause, Exit, Option } from "effect"
import type { Log } from "../../kind.ts"
import type { Series } from "../../metrics.ts"
import { describeFault } from "./fault-description.ts"
import type { RecordedSpan } from "./spans.ts"

const queueMax = 2_048
const batchMax = 512
const intervalMs = 2_000
const requestMs = 5_000
const closeMs = 2_000
const restMs = 30_000

type Attributes = Iterable<readonly [string, unknown]>

const valueOf = (value: unknown): object => {
  switch (typeof value) {
    case "string":
      return { stringValue: value }
    case "boolean":
      return { boolValue: value }
    case "number":
      // A 64-bit integer is a string in protobuf's JSON.
      return Number.isSafeInteger(value) ? { intValue: String(value) } : { doubleValue: value }
    case "bigint":
      return { intValue: String(value) }
    default:
      return { stringValue: String(value) }
  }
}

const attributesOf = (attributes: Attributes): ReadonlyArray<object> =>
  [...attributes].map(([key, value]) => ({ key, value: valueOf(value) }))

const kinds = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const
const okCode = 1
const errorCode = 2

const statusOf = (exit: Exit.Exit<unknown, unknown>): object => {
  if (Exit.isSuccess(exit)) return { code: okCode }
  const fault = describeFault(Cause.squash(exit.cause))
  return { code: errorCode, message: fault?.message ?? fault?.name ?? "failed" }
}

/** Encodes an ended span. */
export const otlpSpan = (span: RecordedSpan): object => {
  const { status } = span
  const ended = status._tag === "Ended" ? status : undefined
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    ...Option.match(span.parent, {
      onNone: () => ({}),
      onSome: ({ spanId: parentSpanId }) => ({ parentSpanId })
    }),
    name: span.name,
    kind: kinds[span.kind],
    startTimeUnixNano: String(status.startTime),
    endTimeUnixNano: String(ended?.endTime ?? status.startTime),
    attributes: attributesOf(span.attributes),
    events: span.events.map(({ name, atNanos, attributes }) => ({
      name,
      timeUnixNano: String(atNanos),
      attributes: attributesOf(Object.entries(attributes))
    })),
    links: span.links.map(({ span: { traceId, spanId }, attributes }) => ({
      traceId,
      spanId,
      attributes: attributesOf(Object.entries(attributes))
    })),
    status: ended === undefined ? {} : statusOf(ended.exit)
  }
}

/** Sends a body; rejects when it was not taken. */
export type Send = (body: string, signal: AbortSignal) => Promise<void>

export const sendTo =
  (baseUrl: string, headers: Readonly<Record<string, string>>): Send =>
  async (body, signal) => {
    const answer = await fetch(`${baseUrl.replace(/\/+$/, "")}/v1/traces`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
      signal,
      redirect: "error"
    })
    await answer.body?.cancel()
    if (!answer.ok) throw new Error(`the collector answered ${answer.status}`)
  }

export interface OtlpExporterOptions {
  readonly send: Send
  readonly serviceName: string
  readonly version: string
  readonly log: Log
  readonly exported: Series
  readonly dropped: Series
  readonly nowMs?: () => number
}

export class OtlpExporter {
  private readonly options: OtlpExporterOptions
  private readonly nowMs: () => number
  private queue: Array<RecordedSpan> = []
  private timer: NodeJS.Timeout | undefined
  private sending: Promise<void> | undefined
  private restsUntilMs = Number.NEGATIVE_INFINITY
  private failing = false

  constructor(options: OtlpExporterOptions) {
    this.options = options
    this.nowMs = options.nowMs ?? (() => performance.now())
  }

  /** False while the collector rests after a failure: recording would be for nothing. */
  get accepts(): boolean {
    return this.nowMs() >= this.restsUntilMs
  }

  readonly push = (span: RecordedSpan): void => {
    if (!this.accepts || this.queue.length >= queueMax) {
      this.options.dropped.value++
      return
    }
    this.queue.push(span)
    if (this.queue.length >= batchMax) void this.flush()
    else if (this.timer === undefined) {
      this.timer = setTimeout(() => void this.flush(), intervalMs)
      this.timer.unref()
    }
  }

  /** Sends what waits, batch by batch; resolves when nothing waits or the collector failed. */
  flush(withinMs = requestMs): Promise<void> {
    clearTimeout(this.timer)
    this.timer = undefined
    this.sending ??= this.sendAll(withinMs).finally(() => {
      this.sending = undefined
    })
    return this.sending
  }

  private async sendAll(withinMs: number): Promise<void> {
    while (this.queue.length > 0) {
      const batch = this.queue.splice(0, batchMax)
      try {
        await this.options.send(this.bodyOf(batch), AbortSignal.timeout(withinMs))
      } catch (cause) {
        return this.failed(batch.length, cause)
      }
      this.options.exported.value += batch.length
      if (this.failing) this.options.log("info", "the trace collector answers again")
      this.failing = false
    }
  }

  private failed(lost: number, cause: unknown): void {
    this.options.dropped.value += lost + this.queue.length
    this.queue = []
    this.restsUntilMs = this.nowMs() + restMs
    if (!this.failing)
      this.options.log("warn", "the trace collector does not answer; spans are dropped", { cause })
    this.failing = true
  }

  private bodyOf(spans: ReadonlyArray<RecordedSpan>): string {
    const { serviceName, version } = this.options
    return JSON.stringify({
      resourceSpans: [
        {
          resource: {
            attributes: attributesOf([
              ["service.name", serviceName],
              ["service.version", version]
            ])
          },
          scopeSpans: [{ scope: { name: "troupe", version }, spans: spans.map(otlpSpan) }]
        }
      ]
    })
  }

  async close(): Promise<void> {
    if (this.accepts) await this.flush(closeMs)
  }
}
