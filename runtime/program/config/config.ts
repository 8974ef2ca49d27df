/** Reads the configuration: built-in defaults, then one YAML file, then the environment, each overriding the
 *  one before. Every key has one name, type, unit, default and description; all faults are reported at once.
 *  Source: docs/operations.md, "Configuration". */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { listenAddressOf } from "../admin-listener.ts"
import { authorizationItems } from "./authorization.ts"
import { chatItems } from "./chat.ts"
import type { Item } from "./item.ts"
import { parse } from "./parse.ts"
import { serverItems } from "./server.ts"
import { storeItems } from "./store.ts"
import { translationItems } from "./translation.ts"
import { nearest, unknownVariables } from "./unknown.ts"

/** Every configuration item, by the member of `Config` that holds its value. */
export const items = {
  ...serverItems,
  ...translationItems,
  ...chatItems,
  ...storeItems,
  ...authorizationItems
}

type Items = typeof items

type ValueOf<I extends Item> = I["kind"] extends "string"
  ? I["initial"] extends string
    ? string
    : string | undefined
  : I["kind"] extends "integer" | "duration"
    ? number
    : I["kind"] extends "boolean"
      ? boolean
      : I["kind"] extends "list"
        ? ReadonlyArray<string>
        : I["kind"] extends "json"
          ? unknown
          : I["kind"] extends ReadonlyArray<infer A>
            ? A
            : never

export type Config = { readonly [N in keyof Items]: ValueOf<Items[N]> }

export const cacheFolderOf = ({ cache, data }: Pick<Config, "cache" | "data">): string =>
  cache ?? join(data, "cache")

type Member = keyof Items

const members = Object.keys(items) as ReadonlyArray<Member>
const itemOf = (member: Member): Item => items[member]

/** Returns the member's key in the YAML file. */
const nameOf = (member: Member): string => itemOf(member).name ?? member

/** Finds a member by its key in the YAML file. The member's own name was its key once and is still
 *  accepted. */
const memberByName = new Map<string, Member>([
  ...members.map((member) => [member as string, member] as const),
  ...members.map((member) => [nameOf(member), member] as const)
])

const nearestName = (name: string): string => nearest(name, members.map(nameOf))

type Environment = Readonly<Record<string, string | undefined>>

const inEnvironment = (env: Environment, member: Member): string | undefined => {
  const text = env[itemOf(member).env]
  return text === "" ? undefined : text
}

/** Names a key as it was set: by the environment variable that holds it, otherwise by its key in the file. */
const labelOf = (env: Environment, member: Member): string =>
  inEnvironment(env, member) === undefined ? nameOf(member) : `${itemOf(member).env} (${nameOf(member)})`

/** A fault begins with the key that it is about. Services know keys only; whoever reads the fault looks for what he
 *  has set. */
const asSet = (env: Environment, fault: string): string =>
  fault.replace(/^[a-z][a-z_.]*(?=(?:\[\d+\][\w.]*)?: )/, (name) => {
    const member = memberByName.get(name)
    return member === undefined ? name : labelOf(env, member)
  })

/** The configuration cannot be used. `faults` begin with keys, or with where else they are. */
export class ConfigFault extends Error {
  readonly faults: ReadonlyArray<string>

  constructor(faults: ReadonlyArray<string>, env: Environment = process.env) {
    const told = faults.map((fault) => asSet(env, fault))
    super(`configuration:\n  ${told.join("\n  ")}`)
    this.name = "ConfigFault"
    this.faults = told
  }
}

/** Flattens the sections of a YAML file: `server: { issuer: … }` becomes `server.issuer`. */
const flatten = (content: Record<string, unknown>, section = ""): ReadonlyArray<readonly [string, unknown]> =>
  Object.entries(content).flatMap(([part, value]) => {
    const name = `${section}${part}`
    const isSection = typeof value === "object" && value !== null && !Array.isArray(value)
    return isSection && !memberByName.has(name)
      ? flatten(value as Record<string, unknown>, `${name}.`)
      : [[name, value] as const]
  })

/** Reads the entries of a YAML file by their names; `faults` collects what is wrong with the file itself. */
const readEntries = async (
  file: string,
  faults: Array<string>
): Promise<ReadonlyArray<readonly [string, unknown]>> => {
  if (!existsSync(file)) throw new ConfigFault([`${file}: no such file`])
  try {
    // Node exposes a CommonJS module's members through its default export, a bundler exposes them by name.
    const yaml = await import("yaml")
    const { parse: parseYaml } = "parse" in yaml ? yaml : (yaml as { default: typeof yaml }).default
    const content: unknown = parseYaml(readFileSync(file, "utf8"))
    if (typeof content === "object" && content !== null && !Array.isArray(content))
      return flatten(content as Record<string, unknown>)
    if (content !== null) faults.push(`${file}: wants names and values`)
  } catch (cause) {
    faults.push(`${file}: ${(cause as Error).message.split("\n")[0]}`)
  }
  return []
}

interface FileValues {
  readonly values: ReadonlyMap<Member, unknown>
  readonly faults: ReadonlyArray<string>
  /** One line for each key in use that has been renamed. */
  readonly warnings: ReadonlyArray<string>
}

const readFile = async (file: string): Promise<FileValues> => {
  const faults: Array<string> = []
  const warnings: Array<string> = []
  const values = new Map<Member, unknown>()
  const usedNames = new Map<Member, string>()
  for (const [name, value] of await readEntries(file, faults)) {
    const member = memberByName.get(name)
    if (member === undefined) {
      faults.push(`${file}: ${name} is no configuration key; the nearest is ${nearestName(name)}`)
      continue
    }
    const current = nameOf(member)
    const usedName = usedNames.get(member)
    if (usedName !== undefined)
      faults.push(
        `${file}: ${current} is set twice${usedName === name ? "" : `, as ${usedName} and as ${name}`}`
      )
    else if (name !== current) warnings.push(`${file}: ${name} has a new name: ${current}`)
    usedNames.set(member, name)
    values.set(member, value)
  }
  return { values, faults, warnings }
}

const noFile: FileValues = { values: new Map(), faults: [], warnings: [] }

/** Makes the checks that involve more than one key, or more than the key's kind. `label` names a key and
 *  where its value comes from. */
const crossFaults = (
  config: Partial<Record<Member, unknown>>,
  label: (member: Member) => string
): ReadonlyArray<string> => {
  const faults: Array<string> = []
  if ((config.tlsCert === undefined) !== (config.tlsKey === undefined))
    faults.push(`${label("tlsCert")} and ${label("tlsKey")} go together`)
  // Only a zone other than the default is checked, because the first Intl object costs a start some
  // milliseconds.
  if (config.storeTimeZone !== undefined && config.storeTimeZone !== items.storeTimeZone.initial)
    try {
      void new Intl.DateTimeFormat("en", { timeZone: String(config.storeTimeZone) })
    } catch {
      faults.push(`${label("storeTimeZone")}: there is no such time zone`)
    }
  const adminAddress = config["admin.address"]
  if (adminAddress !== undefined) {
    const address = listenAddressOf(String(adminAddress))
    if (address === undefined) faults.push(`${label("admin.address")}: wants host:port`)
    else if (address.port !== 0 && address.port === config.port && address.host === config.host)
      faults.push(`${label("admin.address")}: is the address of the public listener`)
  }
  if (config.otlpUrl !== undefined && !/^https?:\/\/[^\s]+$/.test(String(config.otlpUrl)))
    faults.push(`${label("otlpUrl")}: wants an http or https address`)
  return faults
}

/** Loads the configuration; throws ConfigFault with every fault. The YAML file is `file`, otherwise
 *  TROUPE_CONFIG; `warn` is called with one line for each of its keys that has been renamed, and for each
 *  variable that looks like a setting and is none. */
export const loadConfig = async (
  env: Readonly<Record<string, string | undefined>>,
  file: string | undefined = env["TROUPE_CONFIG"],
  warn: (line: string) => void = () => {}
): Promise<Config> => {
  const fromFile = file === undefined ? noFile : await readFile(file)
  const faults = [...fromFile.faults]
  const config: Partial<Record<Member, unknown>> = {}

  const label = (member: Member): string => labelOf(env, member)
  for (const member of members) {
    const item = itemOf(member)
    const fromEnvironment = inEnvironment(env, member)
    const raw = fromEnvironment ?? fromFile.values.get(member) ?? undefined
    const result = raw === undefined ? { value: item.initial } : parse(raw, item)
    if (typeof result !== "string") config[member] = result.value
    else faults.push(`${fromEnvironment === undefined ? `${file}: ` : ""}${label(member)}: ${result}`)
  }
  faults.push(...crossFaults(config, label))
  if (faults.length > 0) throw new ConfigFault(faults, env)

  const variables = members.map((member) => itemOf(member).env)
  for (const line of [...fromFile.warnings, ...unknownVariables(env, variables)]) warn(line)
  return config as unknown as Config
}

export interface ConfigEntry {
  readonly name: string
  readonly env: string
  /** The value, masked when it is a secret, null when there is none. */
  readonly value: unknown
  readonly doc: string
}

/** Lists the configuration in force, by the keys of the YAML file, with secrets masked. */
export const configEntries = (config: Config): ReadonlyArray<ConfigEntry> =>
  members.map((member) => {
    const { env, doc, secret } = itemOf(member)
    const value = config[member] ?? null
    return { name: nameOf(member), env, value: secret === true && value !== null ? "********" : value, doc }
  })
