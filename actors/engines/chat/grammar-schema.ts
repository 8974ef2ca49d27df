/** A JSON schema in the part of it that node-llama-cpp makes grammars of. What it does not know it would take
 *  for null: here that becomes any JSON, or falls away, and whoever asked checks the answer against the whole
 *  schema. Every named property is always written. Source: chat section 7.6. */

/** Any JSON, in the package's words. */
export const anything = {
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

/** llama.cpp refuses grammars with long repetitions, aloud. */
const repetitionsMax = 256

const each = (schemas: Schema): Schema =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, fitted(schema)]))

const limits = (schema: Schema, ...names: ReadonlyArray<string>): Schema =>
  Object.fromEntries(
    names.filter((name) => Number(schema[name] ?? NaN) <= repetitionsMax).map((name) => [name, schema[name]])
  )

const fitted = (schema: unknown): Schema => {
  if (!isSchema(schema)) return anything
  const { properties, items, prefixItems, allOf, enum: values, $ref: reference } = schema
  const named = schema["$defs"] ?? schema["definitions"]
  const defs = isSchema(named) ? { $defs: each(named) } : {}
  const choices = schema["anyOf"] ?? schema["oneOf"]
  const type = schema["type"] ?? (isSchema(properties) ? "object" : isSchema(items) ? "array" : undefined)
  if (typeof reference === "string") {
    const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(reference)?.[1]
    return name === undefined ? anything : { $ref: `#/$defs/${name}`, ...defs }
  }
  if ("const" in schema) return areScalars([schema["const"]]) ? { const: schema["const"] } : anything
  if (Array.isArray(values)) return areScalars(values) ? { enum: values } : anything
  if (Array.isArray(choices)) return { oneOf: choices.map(fitted), ...defs }
  if (Array.isArray(allOf)) return allOf.length === 1 ? { ...fitted(allOf[0]), ...defs } : anything
  if (Array.isArray(type)) return { oneOf: type.map((one) => fitted({ ...schema, type: one })), ...defs }
  switch (type) {
    case "object": {
      const more = schema["additionalProperties"] ?? !isSchema(properties)
      return {
        type,
        ...(isSchema(properties) ? { properties: each(properties) } : {}),
        additionalProperties: typeof more === "boolean" ? more : fitted(more),
        ...limits(schema, "minProperties", "maxProperties"),
        ...defs
      }
    }
    case "array":
      return {
        type,
        ...(isSchema(items) ? { items: fitted(items) } : {}),
        ...(Array.isArray(prefixItems) ? { prefixItems: prefixItems.map(fitted) } : {}),
        ...limits(schema, "minItems", "maxItems"),
        ...defs
      }
    case "string":
      return dates.has(schema["format"])
        ? { type, format: schema["format"] }
        : { type, ...limits(schema, "minLength", "maxLength") }
    default:
      return plainTypes.has(type) ? { type } : anything
  }
}

/** llama.cpp reads a grammar up to its first NUL. */
export const grammarSchema = (schema: unknown): Schema =>
  JSON.stringify(schema).includes("\\u0000") ? anything : fitted(schema)
