/** Watches the room on the disk below a store. When a write met a full disk, writes are refused at once, apart
 *  from one attempt a second: LMDB has free pages of its own, so that deleting may succeed on a full disk.
 *  Guarantee: writes are taken again, without anybody's help, within a second or two of there being room.
 *  Source: docs/operations.md, "A full disk". */
import { open, rm } from "node:fs/promises"
import { statSync } from "node:fs"
import { join } from "node:path"
import { faultOf, isMapFull, isShortWrite } from "./disk-fault.ts"
import { StorageFault } from "./store.ts"

/** Hears when the disk is full, and with undefined when there is room again. */
export type RoomListener = (fault: StorageFault | undefined) => void

export interface RoomOptions {
  readonly folder: string
  /** The store's file, whose end the probe lies beyond: a limit of file sizes is met there. */
  readonly file: string
  readonly listener: RoomListener
}

/** The disk has room when this many bytes more can be written. */
const probeBytes = 2 ** 20

const everyMs = 1_000

const sizeOf = (file: string): number => statSync(file, { throwIfNoEntry: false })?.size ?? 0

export class Room {
  /** The fault that writes meet; undefined while there is room. */
  fault: StorageFault | undefined
  private readonly options: RoomOptions
  private timer: NodeJS.Timeout | undefined
  private probing: Promise<StorageFault | undefined> | undefined
  private attemptAtMs = 0

  constructor(options: RoomOptions) {
    this.options = options
  }

  /** Returns the fault that a write gets without being tried; undefined when it should be tried. */
  refusal(): StorageFault | undefined {
    if (this.fault === undefined || performance.now() >= this.attemptAtMs) return undefined
    return this.fault
  }

  /** Notes that a write succeeded. On a disk that stays full it was LMDB's own free pages that took it, so the
   *  next one may be tried too. */
  wrote(): void {
    if (this.fault === undefined) return
    if (isMapFull(this.fault)) this.become(undefined)
    else this.attemptAtMs = 0
  }

  /** Resolves with what a write's failure means, and refuses further ones when the disk is full. */
  async failed(cause: unknown): Promise<StorageFault> {
    const fault = isShortWrite(cause) ? ((await this.probe()) ?? faultOf(cause)) : faultOf(cause)
    if (fault.reason === "full") {
      // The first commit may have been a large one; a second failure says that small ones fail too.
      if (this.fault !== undefined) this.attemptAtMs = performance.now() + everyMs
      this.become(fault)
    }
    return fault
  }

  close(): void {
    clearInterval(this.timer)
  }

  private become(fault: StorageFault | undefined): void {
    const before = this.fault
    this.fault = fault
    if ((before === undefined) === (fault === undefined)) return
    clearInterval(this.timer)
    // What LMDB's map holds is no matter of the disk: only a write can tell.
    if (fault !== undefined && !isMapFull(fault)) {
      this.timer = setInterval(() => void this.look(), everyMs)
      this.timer.unref()
    }
    this.options.listener(fault)
  }

  private async look(): Promise<void> {
    if ((await this.probe()) === undefined) this.become(undefined)
  }

  /** Resolves with undefined when there is room. It never rejects. */
  private probe(): Promise<StorageFault | undefined> {
    this.probing ??= this.writeProbe()
      .catch((cause: unknown) => faultOf(cause))
      .finally(() => {
        this.probing = undefined
      })
    return this.probing
  }

  private async writeProbe(): Promise<StorageFault | undefined> {
    const { folder, file } = this.options
    const path = join(folder, "room.part")
    try {
      const handle = await open(path, "w", 0o600)
      try {
        const { bytesWritten } = await handle.write(Buffer.alloc(probeBytes), 0, probeBytes, sizeOf(file))
        if (bytesWritten < probeBytes)
          return new StorageFault({ reason: "full", detail: "no space left on device" })
        await handle.sync()
      } finally {
        await handle.close()
      }
    } finally {
      await rm(path, { force: true })
    }
    return undefined
  }
}
