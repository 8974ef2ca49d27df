/** Checks that a text is JSON of a schema. The validator is loaded at the first use; compiled schemas are
 *  cached. Guarantee: a schema that cannot be compiled accepts everything.
 *  Source: docs/spec/chat.md, sections 7.6 and 11.6. */
import { createRequire } from "node:module"
import type { Ajv } from "ajv"
import { parseBounded } from "../../shared/json-values.ts"

type Check = (value: unknown) => boolean

let validator: Ajv | undefined

const loadValidator = (): Ajv => {
  if (validator !== undefined) return validator
  const module = createRequire(import.meta.url)("ajv") as { Ajv: typeof Ajv }
  validator = new module.Ajv({ strict: false, logger: false, validateSchema: false })
  return validator
}

const schemasMax = 256
const compiled = new Map<string, Check>()

const compile = (schema: object): Check => {
  try {
    return loadValidator().compile(schema) as Check
  } catch {
    return () => true
  }
}

const checkOf = (schema: object): Check => {
  const key = JSON.stringify(schema)
  const cached = compiled.get(key)
  if (cached !== undefined) return cached
  const check = compile(schema)
  if (compiled.size >= schemasMax) {
    compiled.clear()
    loadValidator().removeSchema()
  }
  compiled.set(key, check)
  return check
}

export const matchesSchema = (schema: object, text: string): boolean => {
  let value: unknown
  try {
    value = parseBounded(text)
  } catch {
    return false
  }
  return checkOf(schema)(value)
}
