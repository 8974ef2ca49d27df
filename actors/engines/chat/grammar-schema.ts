/** Reduces a JSON schema to the part of it that node-llama-cpp makes grammars of. What that package does not
 *  know it would take for null: here it becomes any JSON, or is left out, and the caller checks the answer
 *  against the whole schema. It is guaranteed that every property that is listed is written.
 *  Source: docs/spec/chat.md, section 7.6. */

/** Allows any JSON, in the package's words. */
export const anyJson = {
  oneOf: [
    { type: "object", additionalProperties: true },
    { type: "array" },
    { type: ["string", "number", "boolean", "null"] }
  ]
}

type Schema = Readonly<Record<string, unknown>>

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const areScalars = (values: ReadonlyArray<unknown>): boolean =>
  values.every((value) => value === null || typeof value !== "object")

const plainTypes = new Set<unknown>(["number", "integer", "boolean", "null"])
const dates = new Set<unknown>(["date-time", "time", "date"])

/** llama.cpp refuses grammars with longer repetitions. */
const repetitionsMax = 256

const eachReduced = (schemas: Schema): Schema =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, reduced(schema)]))

const limits = (schema: Schema, ...names: ReadonlyArray<string>): Schema =>
  Object.fromEntries(
    names.filter((name) => Number(schema[name] ?? NaN) <= repetitionsMax).map((name) => [name, schema[name]])
  )

const impliedType = ({ properties, items }: Schema): "object" | "array" | undefined => {
  if (isSchema(properties)) return "object"
  return isSchema(items) ? "array" : undefined
}

const reduced = (schema: unknown): Schema => {
  if (!isSchema(schema)) return anyJson
  const { properties, items, prefixItems, allOf, enum: values, $ref: reference } = schema
  const definitions = schema["$defs"] ?? schema["definitions"]
  const defs = isSchema(definitions) ? { $defs: eachReduced(definitions) } : {}
  const choices = schema["anyOf"] ?? schema["oneOf"]
  const type = schema["type"] ?? impliedType(schema)
  if (typeof reference === "string") {
    const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference)?.[1]
    return name === undefined ? anyJson : { $ref: `#/$defs/${name}`, ...defs }
  }
  if ("const" in schema) return areScalars([schema["const"]]) ? { const: schema["const"] } : anyJson
  if (Array.isArray(values)) return areScalars(values) ? { enum: values } : anyJson
  if (Array.isArray(choices)) return { oneOf: choices.map(reduced), ...defs }
  if (Array.isArray(allOf)) return allOf.length === 1 ? { ...reduced(allOf[0]), ...defs } : anyJson
  if (Array.isArray(type))
    return { oneOf: type.map((single) => reduced({ ...schema, type: single })), ...defs }
  switch (type) {
    case "object": {
      const additional = schema["additionalProperties"] ?? !isSchema(properties)
      return {
        type,
        ...(isSchema(properties) ? { properties: eachReduced(properties) } : {}),
        additionalProperties: typeof additional === "boolean" ? additional : reduced(additional),
        ...limits(schema, "minProperties", "maxProperties"),
        ...defs
      }
    }
    case "array":
      return {
        type,
        ...(isSchema(items) ? { items: reduced(items) } : {}),
        ...(Array.isArray(prefixItems) ? { prefixItems: prefixItems.map(reduced) } : {}),
        ...limits(schema, "minItems", "maxItems"),
        ...defs
      }
    case "string":
      return dates.has(schema["format"])
        ? { type, format: schema["format"] }
        : { type, ...limits(schema, "minLength", "maxLength") }
    default:
      return plainTypes.has(type) ? { type } : anyJson
  }
}

/** Reduces a whole schema. llama.cpp reads a grammar up to its first NUL, so one with a NUL is any JSON. */
export const grammarSchema = (schema: unknown): Schema =>
  JSON.stringify(schema).includes("\\u0000") ? anyJson : reduced(schema)
