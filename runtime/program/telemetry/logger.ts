/** The log: one JSON object per line on standard error, written by one Effect `Logger`. The plain `Log` of the
 *  kernel and of the services is a view of it that starts no fiber. Guarantee: writing a line never throws;
 *  faults are described without secrets and without anybody's text; a storm of equal lines is cut off and
 *  counted. Source: docs/operations.md, "Logs". */
import { Cause, Effect, Logger, type Fiber, type LogLevel, References } from "effect"
import type { Log } from "../../kind.ts"
import { describeFault } from "./fault-description.ts"
import { LogStorm, type Later } from "./log-storm.ts"

export type LeastLevel = Parameters<Log>[0]

const effectLevel: Readonly<Record<LeastLevel, LogLevel.Severity>> = {
  debug: "Debug",
  info: "Info",
  warn: "Warn",
  error: "Error"
}

const levelNames: Readonly<Record<LogLevel.LogLevel, LeastLevel>> = {
  All: "debug",
  Trace: "debug",
  Debug: "debug",
  Info: "info",
  Warn: "warn",
  Error: "error",
  Fatal: "error",
  None: "debug"
}

const severity: Readonly<Record<LeastLevel, number>> = { debug: 0, info: 1, warn: 2, error: 3 }

const isFault = (value: unknown): boolean => value instanceof Error || Cause.isCause(value)

/** `cause` is always described; any other member only if JSON would lose or expose what is in it. */
const plainField = (name: string, value: unknown): unknown =>
  isFault(value) || (name === "cause" && typeof value === "object") ? describeFault(value) : value

const safeJson = (line: Record<string, unknown>): string => {
  try {
    return JSON.stringify(line, (_, value: unknown) => (typeof value === "bigint" ? String(value) : value))
  } catch {
    const { at, level, message } = line
    return JSON.stringify({ at, level, message, unreadable: "a field of this line is no JSON" })
  }
}

/** Names the sort of a line for the storm's counts: the same failure of the same route. */
const sortOf = (message: string, { route, status }: Record<string, unknown>): string =>
  route === undefined ? message : `${message} ${String(route)} ${String(status)}`

/** A disk that is full takes no line of a log that is written to a file. */
const writeToStandardError = (line: string): void => {
  try {
    process.stderr.write(line)
  } catch {
    /* there is nowhere to say it */
  }
}

export interface JsonLoggerOptions {
  readonly least: LeastLevel
  readonly write?: (line: string) => void
  readonly later?: Later
  /** Returns the trace id of the request that runs now, where that is known. */
  readonly traceId?: () => string | undefined
}

/** Makes the Logger. Its messages are `[text]` or `[text, fields]`; the annotations of a fiber are fields. */
export const jsonLogger = ({
  least,
  write = writeToStandardError,
  later,
  traceId
}: JsonLoggerOptions): Logger.Logger<unknown, void> => {
  const line = (date: Date, level: LeastLevel, message: string, fields: Record<string, unknown>): void =>
    write(`${safeJson({ at: date.toISOString(), level, message, ...fields })}\n`)
  const storm = new LogStorm(
    (of, suppressed) => line(new Date(), "warn", "log lines were suppressed", { of, suppressed }),
    later
  )
  return Logger.make(({ logLevel, message, cause, date, fiber }) => {
    const level = levelNames[logLevel]
    if (severity[level] < severity[least]) return
    const fields: Record<string, unknown> = {}
    const words: Array<string> = []
    for (const part of Array.isArray(message) ? message : [message])
      if (typeof part === "object" && part !== null && !isFault(part))
        for (const [name, value] of Object.entries(part)) fields[name] = plainField(name, value)
      else if (isFault(part)) fields["cause"] = describeFault(part)
      else words.push(String(part))
    for (const [name, value] of Object.entries(fiber.getRef(References.CurrentLogAnnotations)))
      fields[name] ??= plainField(name, value)
    const requestId = fields["traceId"] === undefined ? traceId?.() : undefined
    if (requestId !== undefined) fields["traceId"] = requestId
    if (cause.reasons.length > 0) fields["cause"] ??= describeFault(cause)
    const text = words.join(" ")
    if (severity[level] < severity.warn || storm.admits(sortOf(text, fields))) line(date, level, text, fields)
  })
}

/** Returns the plain view of a Logger. `fiber` lends its annotations; it may have ended. */
export const plainLog =
  (logger: Logger.Logger<unknown, void>, fiber: Fiber.Fiber<unknown, unknown>, least: LeastLevel): Log =>
  (level, message, fields) => {
    if (severity[level] < severity[least]) return
    logger.log({
      logLevel: effectLevel[level],
      message: fields === undefined ? [message] : [message, fields],
      cause: Cause.empty,
      fiber,
      date: new Date()
    })
  }

/** A plain log of its own, outside of any Layer. */
export const logger = (least: LeastLevel, write?: (line: string) => void, later?: Later): Log =>
  plainLog(
    jsonLogger({ least, ...(write && { write }), ...(later && { later }) }),
    Effect.runSync(Effect.withFiberSucceed((fiber) => fiber)),
    least
  )

/** The level below which Effect's own log calls cost nothing. */
export const minimumLevel = (least: LeastLevel): LogLevel.LogLevel => effectLevel[least]
