/** One direction of Apertium as a chain of processes, null-flushed and pipelined. It is guaranteed that each
 *  text gets its own answer or a fault, that a flood or a dead program ends the chain, and that no process is
 *  left.
 *  Source: docs/spec/engines.md, section 2.4. */
import { spawn, type ChildProcess } from "node:child_process"
import { Effect } from "effect"
import type { Start } from "../engine-process.ts"
import { EngineFault } from "../ports.ts"
import { escape } from "./apertium-stream.ts"

/** An unread answer has at most so many characters: more means that the pipeline has lost the thread. */
const pendingCharsMax = 4 * 1_048_576

const canaryMs = 15_000

export interface Pipeline {
  /** Hands a text to the programs, at once, and returns the wait for its answer. `onSettled` is called when they
   *  are done with it, whether somebody still waits or not. */
  readonly start: (text: string, onSettled?: () => void) => Effect.Effect<string, EngineFault>
}

class PendingText {
  readonly marker: string
  private readonly onSettled: (() => void) | undefined
  private answer: Effect.Effect<string, EngineFault> | undefined
  private resume: ((answer: Effect.Effect<string, EngineFault>) => void) | undefined

  constructor(marker: string, onSettled: (() => void) | undefined) {
    this.marker = marker
    this.onSettled = onSettled
  }

  settle(answer: Effect.Effect<string, EngineFault>): void {
    this.answer = answer
    this.onSettled?.()
    this.resume?.(answer)
  }

  readonly wait: Effect.Effect<string, EngineFault> = Effect.callback((resume) => {
    if (this.answer !== undefined) return resume(this.answer)
    this.resume = resume
    return Effect.sync(() => {
      this.resume = undefined
    })
  })
}

const killGroup = (pid: number | undefined): void => {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL")
  } catch {
    /* it has ended already */
  }
}

/** The running chain: texts go in with a marker behind each, answers end where their marker comes out. */
class PipelineProcess implements Pipeline {
  private readonly pending: Array<PendingText> = []
  private lastMarker = 0

  /** Output that belongs to the first pending text. */
  private output = ""

  private fault: EngineFault | undefined
  private onDeath: ((fault: EngineFault) => void) | undefined
  private readonly id: string
  readonly child: ChildProcess

  constructor(id: string, command: string) {
    this.id = id
    const child = spawn("sh", ["-c", `exec 3<&0; <&3 ${command} & exec <&- 3<&- >&-; wait`], {
      detached: true,
      stdio: ["pipe", "pipe", "ignore"]
    })
    this.child = child
    child.on("error", (cause) => this.die(cause.message))
    child.on("exit", (code, signal) => this.die(`the pipeline ended (${signal ?? code})`))
    // A program may not notice that a later one is dead, so the shell may wait for ever. It holds no end of
    // the pipes, so that theirs shows it.
    child.stdout.on("close", () => this.die("a program of the pipeline ended"))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (data: string) => this.read(data))
  }

  crashed(detail: string): EngineFault {
    return new EngineFault({ reason: "crashed", engine: this.id, detail })
  }

  private die(detail: string): void {
    if (this.fault !== undefined) return
    const fault = this.crashed(detail)
    this.fault = fault
    for (const text of this.pending.splice(0)) text.settle(Effect.fail(fault))
    this.onDeath?.(fault)
  }

  private read(data: string): void {
    this.output += data.replaceAll("\0", "")
    for (let next = this.pending[0]; next !== undefined; next = this.pending[0]) {
      const end = this.output.indexOf(next.marker)
      if (end < 0) break
      const answer = this.output.slice(0, end)
      this.output = this.output.slice(end + next.marker.length)
      this.pending.shift()
      next.settle(Effect.succeed(answer))
    }
    if (this.output.length > pendingCharsMax) killGroup(this.child.pid)
  }

  readonly start = (text: string, onSettled?: () => void): Effect.Effect<string, EngineFault> => {
    const pending = new PendingText(`[/N${++this.lastMarker}]`, onSettled)
    if (this.fault === undefined) {
      this.pending.push(pending)
      this.child.stdin!.write(`${text}\0${pending.marker}\0`)
    } else pending.settle(Effect.fail(this.fault))
    return pending.wait
  }

  /** Fails when the pipeline dies; it never succeeds. */
  readonly death: Effect.Effect<never, EngineFault> = Effect.callback((resume) => {
    if (this.fault === undefined) this.onDeath = (fault) => resume(Effect.fail(fault))
    else resume(Effect.fail(this.fault))
  })
}

export const pipeline = (id: string, command: string, canary: string | undefined): Start<Pipeline> =>
  Effect.gen(function* () {
    const running = yield* Effect.acquireRelease(
      Effect.sync(() => new PipelineProcess(id, command)),
      ({ child }) => Effect.sync(() => killGroup(child.pid))
    )
    if (canary !== undefined) {
      const answer = yield* Effect.timeoutOrElse(running.start(escape(canary)), {
        duration: canaryMs,
        orElse: () => Effect.fail(running.crashed("no answer to its canary"))
      })
      if (answer.trim().length < canary.length / 4)
        return yield* Effect.fail(
          new EngineFault({
            reason: "unavailable",
            engine: id,
            detail: `${id} does not translate its canary`
          })
        )
    }
    return { handle: running, death: running.death }
  })
