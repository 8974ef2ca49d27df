/** Loads dist/serve.cjs with V8's code cache, which the first start writes beside it, because compiling costs
 *  more than everything else that a start does (bench cold-start). A cache of another build or another Node
 *  version is ignored and replaced. Node 20 has no compile cache of its own. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { Script } from "node:vm"

/** Returns a proxy for a module, which is loaded when one of its members is first read. */
const late = (load: () => object): object => {
  let loaded: object | undefined
  return new Proxy({}, { get: (_, name) => Reflect.get((loaded ??= load()), name) })
}

export interface Loaded<A> {
  readonly exports: A
  /** Writes the cache. It should be called when the start is complete, so that the cache contains everything
   *  that ran; it does nothing when a cache was used. */
  readonly keep: () => void
}

/** Runs the bundle as a script. `load` is its dynamic import, because a script has no module system of its
 *  own. */
export const loadPrecompiled = <A>(file: string, load: (name: string) => Promise<unknown>): Loaded<A> => {
  const folder = dirname(file)
  const { size, mtimeMs } = statSync(file)
  const cache = join(folder, `serve-${size}-${Math.round(mtimeMs)}-${process.version}-${process.arch}.cache`)
  const cachedData = existsSync(cache) ? readFileSync(cache) : undefined
  // The build writes ASCII (runtime/build.mjs), so one byte is one character, and V8 holds and scans half of
  // what UTF-16 takes.
  const source = `(function (exports, require, module, __metaUrl, __import, __late) {${readFileSync(file, "latin1")}\n})`
  const script = new Script(source, { filename: file, ...(cachedData === undefined ? {} : { cachedData }) })
  const module = { exports: {} as A }
  const url = `file://${file}`
  ;(script.runInThisContext() as (...parts: ReadonlyArray<unknown>) => void)(
    module.exports,
    createRequire(url),
    module,
    url,
    load,
    late
  )
  const keep = (): void => {
    if (cachedData !== undefined && script.cachedDataRejected !== true) return
    const temporary = `${cache}.${process.pid}`
    try {
      writeFileSync(temporary, script.createCachedData())
      for (const old of readdirSync(folder))
        if (/^serve-.*\.cache$/.test(old)) rmSync(join(folder, old), { force: true })
      renameSync(temporary, cache)
    } catch {
      rmSync(temporary, {
        force: true
      }) /* a folder that is not ours to write: the next start compiles again */
    }
  }
  return { exports: module.exports, keep }
}
