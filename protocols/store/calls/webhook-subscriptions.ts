/** Finds the subscribers of an event; the list is cached until a subscription changes.
 *  Source: docs/spec/store.md, section 9.1. */
import type { Engine } from "../engine/engine.ts"
import { valueOf, type Row } from "../engine/resource.ts"

interface Subscribers {
  /** The version of the subscriptions that were read. */
  readonly version: number
  readonly byEvent: ReadonlyMap<string, ReadonlyArray<Row>>
}

type Setting = "event_type" | "url" | "fallback_url" | "failure_type" | "cache_length"

export class Subscriptions {
  private readonly engine: Engine
  private subscribers: Subscribers | undefined

  constructor(engine: Engine) {
    this.engine = engine
  }

  all(): ReadonlyArray<Row> {
    return this.engine.all("webhooks")
  }

  to(event: string): ReadonlyArray<Row> {
    const version = this.engine.version("webhooks")
    if (this.subscribers?.version !== version) this.subscribers = { version, byEvent: this.read() }
    return this.subscribers.byEvent.get(event) ?? []
  }

  setting(row: Row, name: Setting): string {
    return String(valueOf(this.engine.resource("webhooks"), row, name) ?? "")
  }

  private read(): ReadonlyMap<string, ReadonlyArray<Row>> {
    const byEvent = new Map<string, Array<Row>>()
    for (const row of this.all()) {
      const event = this.setting(row, "event_type")
      const rows = byEvent.get(event)
      if (rows === undefined) byEvent.set(event, [row])
      else rows.push(row)
    }
    return byEvent
  }
}
