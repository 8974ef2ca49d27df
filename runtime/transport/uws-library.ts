/** Loads uWebSockets.js. Its Linux binaries ask for glibc 2.38, for two or three symbols only; where the C
 *  library is 2.36 or 2.37 a copy without that need is loaded (elf.ts), which the build leaves in dist/native,
 *  else the first load in a cache folder. Guarantee: no copy is loaded whose SHA-256 is not pinned here, and
 *  none is written of a binary whose SHA-256 is not. Source: docs/decisions.md, "Transport". */
import { createHash, randomUUID } from "node:crypto"
import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeFileSync
} from "node:fs"
import { createRequire } from "node:module"
import { dirname, join, resolve } from "node:path"
import { fileURLToPath } from "node:url"
import type uWS from "uWebSockets.js"
import { rebound, type Rebinding } from "./elf.ts"

export type Library = typeof uWS

const glibc = { library: "libc.so.6", from: "GLIBC_2.38", prefix: "__isoc23_" }

const rebindings: Readonly<Record<string, Rebinding>> = {
  x64: { ...glibc, machine: 62, to: "GLIBC_2.2.5", symbols: ["sscanf", "strtol", "strtoul"] },
  arm64: { ...glibc, machine: 183, to: "GLIBC_2.17", symbols: ["strtol", "strtoul"] }
}

/** The SHA-256 of each Linux binary of the pinned package, and of its copy; one a processor and Node ABI. */
export const pins: Readonly<Record<string, { readonly original: string; readonly copy: string }>> = {
  linux_arm64_115: {
    original: "6bdbc8ff976b4371af1906175e9025804bacc38a414969f4f02314e6b99f206c",
    copy: "c2d1ed56dd649fa070edc7f40ab7f001220b779a25ccf74b4668956815add011"
  },
  linux_arm64_127: {
    original: "82b79bd18d1e3563de336156005bd01b7f39fc387b65173d69a29da4ee79f895",
    copy: "2c554a4acaef582e6cff58bbe9d555749d492153167e06c38721e39fd4f467ae"
  },
  linux_arm64_137: {
    original: "88618b30ddf6b2b62310db89f40a701616676352aac5e0f6184dd8ef876199ce",
    copy: "c52f98e37763f821adfd7a24445de06c5941db0bb99b92fd2ac06d5f65cd50f8"
  },
  linux_arm64_141: {
    original: "81d0186dd1549ed6a7f47e68e323573fc27d69d2920527654ce2dd993af2b0ec",
    copy: "ca84857b2027db75652dfed569fdac54439f5ba932e91de17ad04f895ec631e0"
  },
  linux_x64_115: {
    original: "5b126ee00bf754b02e97e4c27090365a8562c5820c93f93918ac2212d4503e91",
    copy: "d1156432c696075e653325e7d7a784796db200923221e1e4a36293d15d724e32"
  },
  linux_x64_127: {
    original: "4b55b1f2cb7a7913febbb65a89496412b96af77e838552980092ba6b33723aac",
    copy: "f1608f301188933e79a50cf7d219a30ee83814aaba5e400e37c10eb9be7958db"
  },
  linux_x64_137: {
    original: "98128405dba2fb608448e921a979530f70c946a2cc9889c15f2fa70c2d00ab05",
    copy: "337e7312c83b0df8accbe2446055c1e663ef14824712a055dfb8c34852cd8d69"
  },
  linux_x64_141: {
    original: "813d788b347c6fd76b779d8932311ec05a044e612b4b83af220f16e6ea789683",
    copy: "66513ca63ef5fe6c0534f58cee955fcb272d49194dda12a806c2c1ccfb9b636d"
  }
}

const running = `${process.platform}_${process.arch}_${process.versions.modules}`

const nameOf = (binary: string): string => `uws_${binary}.node`

const require = createRequire(import.meta.url)

const firstLine = (cause: unknown): string => (cause as Error).message.split("\n")[0]!

/** Returns the folder of the installed package; throws where it is not installed. */
export const packageFolder = (): string => dirname(require.resolve("uWebSockets.js"))

/** Returns the copy of a binary; throws unless both are what the pins say. */
export const copyOf = (binary: string, original: Uint8Array): Buffer => {
  const pin = pins[binary]
  const hash = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")
  if (pin === undefined || hash(original) !== pin.original)
    throw new Error(`${nameOf(binary)} is not the one that is known`)
  const copy = rebound(original, rebindings[binary.split("_")[1]!]!)
  if (hash(copy) !== pin.copy) throw new Error(`the copy of ${nameOf(binary)} is not the one that is known`)
  return copy
}

/** Tells whether a file can be read and is the pinned copy. It is read in pieces, since a start should not
 *  take 7 MB for that. */
const isCopy = (file: string, binary: string): boolean => {
  if (!existsSync(file)) return false
  const hash = createHash("sha256")
  try {
    const from = openSync(file, "r")
    try {
      const piece = Buffer.allocUnsafe(262_144)
      for (let bytes; (bytes = readSync(from, piece)) > 0;) hash.update(piece.subarray(0, bytes))
    } finally {
      closeSync(from)
    }
  } catch {
    return false
  }
  return hash.digest("hex") === pins[binary]?.copy
}

/** Makes a folder that only this user may enter, because who can write there could exchange a library between
 *  its check and its loading. */
const ownFolder = (folder: string): void => {
  if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
  const { uid, mode } = lstatSync(folder)
  if (uid !== process.getuid?.()) throw new Error(`${folder} belongs to another user`)
  if ((mode & 0o077) !== 0) chmodSync(folder, 0o700)
}

/** Writes a copy of the package's binary; either the whole file is there afterwards, or what was there
 *  before. */
const write = (file: string, binary: string, mode: number): void => {
  const copy = copyOf(binary, readFileSync(join(packageFolder(), nameOf(binary))))
  const temporary = `${file}.${randomUUID()}`
  try {
    const to = openSync(temporary, "w", mode)
    try {
      writeFileSync(to, copy)
      fsyncSync(to)
    } finally {
      closeSync(to)
    }
    renameSync(temporary, file)
  } catch (cause) {
    rmSync(temporary, { force: true })
    throw cause
  }
}

/** Leaves copies in a folder of the built program, which every user may read: that of the Node that builds,
 *  or all. Without the package, and for other systems than Linux, there is none to leave. */
export const buildCopies = (folder: string, binaries: ReadonlyArray<string> = [running]): void => {
  let installed: ReadonlyArray<string> = []
  try {
    installed = readdirSync(packageFolder())
  } catch {
    return
  }
  for (const binary of binaries) {
    if (pins[binary] === undefined || !installed.includes(nameOf(binary))) continue
    mkdirSync(folder, { recursive: true })
    write(join(folder, nameOf(binary)), binary, 0o644)
  }
}

/** Leaves the copy in a folder of this user alone, and returns its file. */
const cached = (folder: string): string => {
  ownFolder(folder)
  const file = resolve(folder, nameOf(running))
  if (!isCopy(file, running)) write(file, running, 0o600)
  return file
}

/** Loads the copy: the one beside the built program, else the one of the cache folder. */
const loadCopy = (cacheFolder: string): Library => {
  const built = fileURLToPath(new URL(`./native/${nameOf(running)}`, import.meta.url))
  if (isCopy(built, running)) return require(built) as Library
  return require(cached(join(cacheFolder, "native"))) as Library
}

const load = (cacheFolder: string | undefined): Library => {
  // The native library reads this when it loads; it limits the request line and headers together. Our own
  // limits are lower and answer first.
  process.env["UWS_HTTP_MAX_HEADERS_SIZE"] ??= "65536"
  const original = join(packageFolder(), nameOf(running))
  if (!existsSync(original)) throw new Error(`it has no binary for ${running.replaceAll("_", " ")}`)
  try {
    return require(original) as Library
  } catch (cause) {
    if (!firstLine(cause).includes(`\`${glibc.from}' not found`)) throw cause
  }
  if (cacheFolder !== undefined) return loadCopy(cacheFolder)
  const shared = join(packageFolder(), "../.cache/troupe")
  mkdirSync(shared, { recursive: true })
  return loadCopy(shared)
}

let loaded: Library | undefined

/** Loads the library; throws, with the reason in the first line, where no binary loads. Without a cache folder
 *  that of the installed packages is taken. */
export const loadLibrary = (cacheFolder?: string): Library => (loaded ??= load(cacheFolder))
