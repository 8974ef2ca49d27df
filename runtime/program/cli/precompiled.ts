/** Loads dist/serve.cjs with V8's code cache, which the first start leaves beside it: compiling costs more
 *  than all else that a start does (bench cold-start). A cache of another build or another Node is not taken,
 *  and made anew. Node 20 has no compile cache of its own. */
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"
import { Script } from "node:vm"

/** A module that is loaded when something of it is first asked for. */
const late = (load: () => object): object => {
  let loaded: object | undefined
  return new Proxy({}, { get: (_, name) => Reflect.get((loaded ??= load()), name) })
}

export interface Loaded<A> {
  readonly exports: A
  /** To be called when what a start runs has run: the cache then holds that too. Does nothing when a cache
   *  was taken. */
  readonly keep: () => void
}

/** `load`: how a script, which has no module system of its own, imports. */
export const loadPrecompiled = <A>(file: string, load: (name: string) => Promise<unknown>): Loaded<A> => {
  const folder = dirname(file)
  const { size, mtimeMs } = statSync(file)
  const cache = join(folder, `serve-${size}-${Math.round(mtimeMs)}-${process.version}-${process.arch}.cache`)
  const cachedData = existsSync(cache) ? readFileSync(cache) : undefined
  // esbuild writes ASCII: one byte a character.
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
