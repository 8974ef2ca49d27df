/** Spans of Effect's `Tracer`, recorded in memory until they end. Guarantee: a span that is not sampled records
 *  nothing. Source: docs/operations.md, "Tracing". */
import { randomBytes } from "node:crypto"
import { type Context, type Exit, Option, Tracer } from "effect"

type SpanOptions = Parameters<Tracer.Tracer["span"]>[0]

export interface SpanEvent {
  readonly name: string
  readonly atNanos: bigint
  readonly attributes: Readonly<Record<string, unknown>>
}

/** What an attribute list or a list of events holds at most. */
const entriesMax = 64

export class RecordedSpan implements Tracer.Span {
  readonly _tag = "Span"
  readonly name: string
  readonly spanId: string
  readonly traceId: string
  readonly parent: Option.Option<Tracer.AnySpan>
  readonly annotations: Context.Context<never>
  readonly kind: Tracer.SpanKind
  readonly sampled: boolean
  readonly attributes = new Map<string, unknown>()
  readonly events: Array<SpanEvent> = []
  links: ReadonlyArray<Tracer.SpanLink>
  status: Tracer.SpanStatus
  private readonly ended: (span: RecordedSpan) => void

  constructor(options: SpanOptions, traceId: string, ended: (span: RecordedSpan) => void) {
    this.name = options.name
    this.parent = options.parent
    this.annotations = options.annotations
    this.kind = options.kind
    this.sampled = options.sampled
    this.links = options.links
    this.status = { _tag: "Started", startTime: options.startTime }
    this.traceId = traceId
    this.spanId = randomBytes(8).toString("hex")
    this.ended = ended
  }

  attribute(key: string, value: unknown): void {
    if (this.sampled && this.attributes.size < entriesMax) this.attributes.set(key, value)
  }

  event(name: string, atNanos: bigint, attributes: Record<string, unknown> = {}): void {
    if (this.sampled && this.events.length < entriesMax) this.events.push({ name, atNanos, attributes })
  }

  addLinks(links: ReadonlyArray<Tracer.SpanLink>): void {
    this.links = [...this.links, ...links].slice(0, entriesMax)
  }

  end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    if (this.status._tag === "Ended") return
    this.status = { _tag: "Ended", startTime: this.status.startTime, endTime, exit }
    if (this.sampled) this.ended(this)
  }
}

export interface TracerOptions {
  readonly ended: (span: RecordedSpan) => void
  /** The span in which the caller runs; it becomes the parent of a span that names none. */
  readonly current: () => RecordedSpan | undefined
}

/** Makes a Tracer. A span without a parent is sampled only below a request: what nobody asked for is no trace. */
export const recordingTracer = ({ ended, current }: TracerOptions): Tracer.Tracer =>
  Tracer.make({
    span: (options) => {
      const above = options.root ? undefined : (Option.getOrUndefined(options.parent) ?? current())
      const parent = above === undefined ? Option.none<Tracer.AnySpan>() : Option.some(above)
      const sampled = options.sampled && above?.sampled === true
      const traceId = above?.traceId ?? randomBytes(16).toString("hex")
      return new RecordedSpan({ ...options, parent, sampled }, traceId, ended)
    }
  })
