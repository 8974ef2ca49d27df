/** A JSON schema in the part of it that node-llama-cpp makes grammars of. What it does not know it would take for null: here that becomes any JSON, or
 *  falls away, and whoever asked checks the answer against the whole schema. Every named property is always written. Source: chat section 7.6. */

/** Any JSON, in the package's words. */
export const anything = { oneOf: [{ type: "object", additionalProperties: true }, { type: "array" }, { type: ["string", "number", "boolean", "null"] }] }

/** llama.cpp refuses grammars with long repetitions, aloud. */
const repetitionsMax = 256
const plainTypes = new Set(["number", "integer", "boolean", "null"]), dates = new Set(["date-time", "time", "date"])
const isScalar = (value: unknown): boolean => value === null || typeof value !== "object"
const each = (schemas: Readonly<Record<string, unknown>>): Record<string, unknown> => Object.fromEntries(Object.entries(schemas).map(([name, one]) => [name, grammarSchema(one)]))

export const grammarSchema = (schema: any): unknown => {
  if (typeof schema !== "object" || schema === null) return anything
  const named = schema.$defs ?? schema.definitions, defs = named === undefined ? {} : { $defs: each(named) }
  const limits = (names: ReadonlyArray<string>): Record<string, unknown> => Object.fromEntries(names.filter((name) => schema[name] <= repetitionsMax).map((name) => [name, schema[name]]))
  const choices = schema.anyOf ?? schema.oneOf
  const type = schema.type ?? (schema.properties !== undefined ? "object" : schema.items !== undefined ? "array" : undefined)
  if (typeof schema.$ref === "string") {
    const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(schema.$ref)?.[1]
    return name === undefined ? anything : { $ref: `#/$defs/${name}`, ...defs }
  }
  if ("const" in schema) return isScalar(schema.const) ? { const: schema.const } : anything
  if (Array.isArray(schema.enum)) return schema.enum.every(isScalar) ? { enum: schema.enum } : anything
  if (Array.isArray(choices)) return { oneOf: choices.map(grammarSchema), ...defs }
  if (Array.isArray(schema.allOf)) return schema.allOf.length === 1 ? { ...grammarSchema(schema.allOf[0]) as object, ...defs } : anything
  if (Array.isArray(type)) return { oneOf: type.map((one: string) => grammarSchema({ ...schema, type: one })), ...defs }
  if (type === "object") {
    const { properties, additionalProperties: more = properties === undefined } = schema
    return { type, ...(properties === undefined ? {} : { properties: each(properties) }), additionalProperties: typeof more === "boolean" ? more : grammarSchema(more), ...limits(["minProperties", "maxProperties"]), ...defs }
  }
  if (type === "array") {
    const { items, prefixItems } = schema
    return { type, ...(typeof items === "object" ? { items: grammarSchema(items) } : {}), ...(Array.isArray(prefixItems) ? { prefixItems: prefixItems.map(grammarSchema) } : {}), ...limits(["minItems", "maxItems"]), ...defs }
  }
  if (type === "string") return dates.has(schema.format) ? { type, format: schema.format } : { type, ...limits(["minLength", "maxLength"]) }
  return plainTypes.has(type) ? { type } : anything
}
