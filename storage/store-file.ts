/** Looks into the store's file before LMDB maps it: LMDB trusts what it maps, so that a file which is cut, empty
 *  or overwritten ends the process by SIGBUS or SIGSEGV. Guarantee: every page that the newest durable tree
 *  refers to lies within the file and is what its parent says. Of a file of more than `pagesMax` pages only the
 *  branches are read, so that a start stays quick. Source: lmdb's mdb.c (MDB_page, MDB_meta, MDB_node; the
 *  flushed meta half a page behind the first is lmdb-js's). */
import { closeSync, fstatSync, openSync, readFileSync, readSync } from "node:fs"
import { faultOf } from "./disk-fault.ts"
import { StorageFault } from "./store.ts"

const pagesMax = 2 ** 16

const headerBytes = 24
const metaBytes = 168
const magic = 0xbeefc0de
const dataVersion = 2
const absentRoot = 2n ** 64n - 1n

const branchFlag = 0x01
const leafFlag = 0x02
const overflowFlag = 0x04
const treeFlags = 0x3f
const bigData = 0x01
const subDatabase = 0x02
/** Marks a meta page whose transaction was not flushed when it was written. */
const unflushedFlag = 0x1000

const nodeHeaderBytes = 8
const depthMax = 32

interface Tree {
  readonly root: bigint
  readonly depth: number
}

interface Meta {
  readonly pageBytes: number
  readonly isUnflushed: boolean
  readonly trees: ReadonlyArray<Tree>
  readonly transaction: bigint
  readonly boot: bigint
}

const treeAt = (bytes: Buffer, at: number): Tree => ({
  depth: bytes.readUInt16LE(at + 6),
  root: bytes.readBigUInt64LE(at + 40)
})

const metaOf = (bytes: Buffer): Meta => ({
  pageBytes: bytes.readUInt32LE(48),
  isUnflushed: (bytes.readUInt16LE(52) & unflushedFlag) !== 0,
  trees: [treeAt(bytes, 48), treeAt(bytes, 96)],
  transaction: bytes.readBigUInt64LE(152),
  boot: bytes.readBigInt64LE(160)
})

/** The number by which LMDB knows this boot of the machine; 0 where it knows none. */
const bootNumber = (): bigint => {
  try {
    const text = readFileSync("/proc/sys/kernel/random/boot_id", "latin1")
    return BigInt(`0x${/^[0-9a-f]+/.exec(text)![0]}`)
  } catch {
    return 0n
  }
}

const corrupt = (path: string, what: string): StorageFault =>
  new StorageFault({ reason: "corrupt", detail: `${path} ${what}: restore a backup` })

class StoreFile {
  private readonly path: string
  private readonly file: number
  private readonly bytes: number
  private pageBytes = 4_096
  private page = Buffer.alloc(0)
  private pages = 0
  private readsLeaves = true

  constructor(path: string, file: number) {
    this.path = path
    this.file = file
    this.bytes = fstatSync(file).size
  }

  /** Throws the first fault that it finds. */
  check(): void {
    if (this.bytes === 0) throw corrupt(this.path, "is empty (0 bytes)")
    const first = this.metaAt(0)
    const { pageBytes } = metaOf(first)
    if (first.readUInt32LE(24) !== magic) throw corrupt(this.path, "is no store: its first page is damaged")
    const version = first.readUInt32LE(28) & 0xffff
    if (version !== dataVersion)
      throw corrupt(this.path, `is of LMDB's format ${version}, not ${dataVersion}`)
    if (pageBytes < 512 || pageBytes > 65_536 || (pageBytes & (pageBytes - 1)) !== 0)
      throw corrupt(this.path, "is no store: its first page is damaged")
    const second = this.metaAt(pageBytes)
    if (second.readUInt32LE(24) !== magic) throw corrupt(this.path, "is damaged in its second page")
    this.pageBytes = pageBytes
    this.pages = Math.floor(this.bytes / pageBytes)
    this.readsLeaves = this.pages <= pagesMax
    const { trees } = this.opened(metaOf(first), metaOf(second), metaOf(this.metaAt(pageBytes >> 1)))
    for (const { root, depth } of trees) if (root !== absentRoot) this.walk(Number(root), depth)
  }

  /** Returns the meta page that LMDB will open: the newest, or after a restart of the machine the newest
   *  flushed one. */
  private opened(a: Meta, b: Meta, flushed: Meta): Meta {
    const latest = a.transaction >= b.transaction ? a : b
    if (flushed.transaction === 0n || !latest.isUnflushed) return latest
    if (latest.boot !== 0n && latest.boot === bootNumber()) return latest
    return latest.transaction > flushed.transaction ? flushed : latest
  }

  private read(bytes: Buffer, at: number): void {
    if (readSync(this.file, bytes, 0, bytes.length, at) < bytes.length)
      throw corrupt(this.path, `is cut off: it ends at ${this.bytes} bytes, and its data go on`)
  }

  private metaAt(at: number): Buffer {
    const bytes = Buffer.alloc(metaBytes)
    this.read(bytes, at)
    return bytes
  }

  /** Reads a page into a buffer of that level, because the walk returns to it. */
  private pageAt(number: number, level: number, buffers: Array<Buffer>): Buffer {
    const page = (buffers[level] ??= Buffer.alloc(this.pageBytes))
    if (number >= this.pages) throw corrupt(this.path, `is cut off: it ends before its page ${number}`)
    this.read(page, number * this.pageBytes)
    return page
  }

  private damaged(number: number): StorageFault {
    return corrupt(this.path, `is damaged in its page ${number}`)
  }

  private walk(root: number, depth: number): void {
    if (depth < 1 || depth > depthMax) throw this.damaged(root)
    this.visit({ number: root, level: 1, depth, buffers: [] })
  }

  private visit(at: {
    readonly number: number
    readonly level: number
    readonly depth: number
    readonly buffers: Array<Buffer>
  }): void {
    const { number, level, depth, buffers } = at
    const isLeaf = level === depth
    if (isLeaf && !this.readsLeaves) {
      if (number >= this.pages) throw corrupt(this.path, `is cut off: it ends before its page ${number}`)
      return
    }
    const page = this.pageAt(number, level, buffers)
    const room = this.pageBytes - headerBytes
    const lower = page.readUInt16LE(20)
    const upper = page.readUInt16LE(22)
    const isExpected =
      page.readUIntLE(0, 6) === number &&
      (page.readUInt16LE(18) & treeFlags) === (isLeaf ? leafFlag : branchFlag) &&
      lower <= upper &&
      upper <= room
    if (!isExpected) throw this.damaged(number)
    for (let i = 0; i < lower >> 1; i++) {
      const offset = page.readUInt16LE(headerBytes + 2 * i)
      const node = headerBytes + offset
      const keyBytes =
        offset >= upper && offset + nodeHeaderBytes <= room ? page.readUInt16LE(node + 6) : room
      const data = node + nodeHeaderBytes + keyBytes
      if (data > this.pageBytes) throw this.damaged(number)
      if (isLeaf) this.visitValue(page, node, data, number)
      else this.visit({ number: page.readUIntLE(node, 6), level: level + 1, depth, buffers })
    }
  }

  private visitValue(page: Buffer, node: number, data: number, number: number): void {
    const flags = page.readUInt16LE(node + 4)
    const bytes = page.readUInt32LE(node)
    const isElsewhere = (flags & bigData) !== 0
    if (data + (isElsewhere ? 24 : bytes) > this.pageBytes) throw this.damaged(number)
    if ((flags & subDatabase) !== 0) {
      const tree = treeAt(page, data)
      if (tree.root !== absentRoot) this.walk(Number(tree.root), tree.depth)
    }
    if (isElsewhere) this.visitOverflow(page.readUIntLE(data, 6), bytes)
  }

  private visitOverflow(number: number, bytes: number): void {
    if (number * this.pageBytes + headerBytes + bytes > this.bytes)
      throw corrupt(this.path, `is cut off: it ends within its page ${number}`)
    if (this.page.length === 0) this.page = Buffer.alloc(headerBytes)
    this.read(this.page, number * this.pageBytes)
    if (this.page.readUIntLE(0, 6) !== number || (this.page.readUInt16LE(18) & overflowFlag) === 0)
      throw this.damaged(number)
  }
}

/** Throws a StorageFault that names what is wrong with the file. One that is not there is well. */
export const checkStoreFile = (path: string): void => {
  let file: number
  try {
    file = openSync(path, "r")
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return
    throw faultOf(cause)
  }
  try {
    new StoreFile(path, file).check()
  } finally {
    closeSync(file)
  }
}
