/** Whether every index says what the rows say, and nothing else. */
import type { Engine } from "../../../../protocols/store/engine/engine.ts"
import { fold } from "../../../../protocols/store/engine/fields.ts"
import { References, Rows, Uniques } from "../../../../protocols/store/engine/records.ts"

export const disagreements = ({ store, resources }: Engine): ReadonlyArray<string> => {
  const uniques = new Map<string, string>()
  const references = new Set<string>()
  const faults: Array<string> = []
  for (const { name, fields, firstId = 1 } of resources.values()) {
    const rows = Rows.range(store, { prefix: [name], limit: 1_000_000 })
    const last = rows.at(-1)?.key[1] as number | undefined
    if (last !== undefined && store.counter("store-ids", [name]) + firstId - 1 < last)
      faults.push(`${name}: the sequence is behind`)
    for (const {
      key: [, id],
      value: { values }
    } of rows)
      for (const [field, { unique, references: to }] of Object.entries(fields)) {
        const value = values[field]
        if (unique !== undefined && typeof value === "string" && value !== "")
          uniques.set(`${unique}/${fold(value)}`, `${name}/${id}`)
        if (to !== undefined && typeof value === "number" && value > 0)
          references.add(`${name}/${field}/${value}/${id}`)
      }
  }
  const stored = new Map(
    Uniques.range(store, { limit: 1_000_000 }).map(({ key, value }) => [key.join("/"), value.join("/")])
  )
  const referring = new Set(References.range(store, { limit: 1_000_000 }).map(({ key }) => key.join("/")))
  for (const [key, holder] of uniques)
    if (stored.get(key) !== holder) faults.push(`unique ${key} should be ${holder}, is ${stored.get(key)}`)
  for (const key of stored.keys()) if (!uniques.has(key)) faults.push(`unique ${key} has no row`)
  for (const key of references) if (!referring.has(key)) faults.push(`reference ${key} is missing`)
  for (const key of referring) if (!references.has(key)) faults.push(`reference ${key} has no row`)
  return faults
}
