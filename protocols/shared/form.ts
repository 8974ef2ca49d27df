/** Parses application/x-www-form-urlencoded to the same plain values as JSON: `a=1&a=2` and `a[]=1` are
 *  arrays, `a[0].b` and `a[0][b]` arrays of objects. Pure and bounded: any bytes decode (WHATWG rules) unless
 *  they exceed a limit, which is a FormFault.
 *  Source: docs/spec/translation.md, section 1.2; URL standard, "application/x-www-form-urlencoded
 *  parsing". */

export type FormValue = string | ReadonlyArray<FormValue> | { readonly [name: string]: FormValue }
export type Form = { readonly [name: string]: FormValue }

/** Fault of a form; `shape` means that one name is used as a value and as an object, or with an index above
 *  the limit. */
export interface FormFault {
  readonly _tag: "FormFault"
  readonly reason: "too-many" | "too-deep" | "shape"
}

const fieldsMax = 10_000
const depthMax = 8
const indexMax = 9_999

/** Faults are recognized by identity, because a form may have a field called `_tag`. */
const faults = new WeakSet<object>()

const fault = (reason: FormFault["reason"]): FormFault => {
  const formFault: FormFault = { _tag: "FormFault", reason }
  faults.add(formFault)
  return formFault
}

export const isFormFault = (value: unknown): value is FormFault =>
  typeof value === "object" && value !== null && faults.has(value)

/** A value under construction: its strings in order, and its members. */
interface Node {
  readonly values: Array<string>
  list: boolean
  members: Map<string | number, Node> | undefined
}

const node = (): Node => ({ values: [], list: false, members: undefined })

const segment = /^(?:\[(\d+)\]|\[([^[\]]*)\]|\.([^.[\]]+))/

/** Parses a name to a path: `dictionaries[0].source_lang` → ["dictionaries", 0, "source_lang"]. A name
 *  without path syntax is a path of one. */
const pathOf = (name: string): ReadonlyArray<string | number> | FormFault => {
  const at = name.search(/[.[]/)
  if (at <= 0 || (name[at] === "." && !name.includes("["))) return [name]
  const path: Array<string | number> = [name.slice(0, at)]
  for (let rest = name.slice(at); rest !== "";) {
    const found = segment.exec(rest)
    if (found === null) return [name]
    if (path.length >= depthMax) return fault("too-deep")
    if (found[1] === undefined) path.push(found[2] ?? found[3]!)
    else if (found[1].length > 5 || Number(found[1]) > indexMax) return fault("shape")
    else path.push(Number(found[1]))
    rest = rest.slice(found[0].length)
  }
  return path
}

/** Value of a hexadecimal digit by its character code, or -1. */
const hexOf = (code: number): number => {
  if (code >= 48 && code <= 57) return code - 48
  if (code >= 65 && code <= 70) return code - 55
  return code >= 97 && code <= 102 ? code - 87 : -1
}

/** Decodes leniently: an invalid escape is left as it is, and bytes that are not UTF-8 become U+FFFD. */
const lenient = (text: string): string => {
  const bytes = Buffer.from(text)
  let length = 0
  for (let i = 0; i < bytes.length; i++) {
    const high = bytes[i] === 37 && i + 2 < bytes.length ? hexOf(bytes[i + 1]!) : -1
    const low = high < 0 ? -1 : hexOf(bytes[i + 2]!)
    if (low < 0) bytes[length++] = bytes[i]!
    else {
      bytes[length++] = high * 16 + low
      i += 2
    }
  }
  return bytes.toString("utf8", 0, length)
}

const decoded = (part: string): string => {
  const spaced = part.includes("+") ? part.replaceAll("+", " ") : part
  if (!spaced.includes("%")) return spaced
  try {
    return decodeURIComponent(spaced)
  } catch {
    return lenient(spaced)
  }
}

const valueOf = (built: Node): FormValue | FormFault => {
  const { values, members } = built
  if (members === undefined) return values.length === 1 && !built.list ? values[0]! : values
  if (values.length > 0) return fault("shape")
  const names = [...members.keys()]
  const indexed = names.every((name) => typeof name === "number")
  if (!indexed && names.some((name) => typeof name === "number")) return fault("shape")
  if (indexed) {
    const list: Array<FormValue> = []
    for (const index of (names as Array<number>).sort((a, b) => a - b)) {
      const value = valueOf(members.get(index)!)
      if (isFormFault(value)) return value
      list.push(value)
    }
    return list
  }
  return recordOf(members as Map<string, Node>)
}

const recordOf = (members: ReadonlyMap<string, Node>): Form | FormFault => {
  const record: Record<string, FormValue> = Object.create(null)
  for (const [name, member] of members) {
    const value = valueOf(member)
    if (isFormFault(value)) return value
    record[name] = value
  }
  return record
}

export const parseForm = (text: string): Form | FormFault => {
  const fields = new Map<string, Node>()
  let seen = 0
  for (let start = 0; start < text.length;) {
    let end = text.indexOf("&", start)
    if (end < 0) end = text.length
    const pair = text.slice(start, end)
    start = end + 1
    if (pair === "") continue
    if (++seen > fieldsMax) return fault("too-many")
    const equals = pair.indexOf("=")
    const name = decoded(equals < 0 ? pair : pair.slice(0, equals))
    const value = equals < 0 ? "" : decoded(pair.slice(equals + 1))
    const path = pathOf(name)
    if (isFormFault(path)) return path
    let members = fields
    let at: Node | undefined
    for (const part of path) {
      if (part === "" && at !== undefined) {
        at.list = true
        break
      } // name[]
      if (at !== undefined) members = (at.members ??= new Map()) as Map<string, Node>
      at = members.get(part as string)
      if (at === undefined) members.set(part as string, (at = node()))
    }
    at!.values.push(value)
  }
  return recordOf(fields)
}
