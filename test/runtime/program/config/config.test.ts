import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import type { Item } from "../../../../runtime/program/config/item.ts"
import { configEntries, ConfigFault, items, loadConfig } from "../../../../runtime/program/config/config.ts"

const file = (text: string): string => {
  const path = join(mkdtempSync(join(tmpdir(), "troupe-config-")), "troupe.yaml")
  writeFileSync(path, text)
  return path
}

const faultsOf = (env: Record<string, string>, yaml?: string): Promise<ReadonlyArray<string>> =>
  loadConfig(env, yaml === undefined ? undefined : file(yaml)).then(
    () => [],
    (cause: ConfigFault) => cause.faults
  )

describe("configuration", () => {
  it("defaults, then the file, then the environment", async () => {
    expect((await loadConfig({})).port).toBe(8080)
    const fromFile = await loadConfig({}, file("http: { port: 9000 }\nengines: { translate: [apertium] }"))
    expect(fromFile.enginesTranslate).toEqual(["apertium"])
    const config = await loadConfig({
      TROUPE_PORT: "9001",
      ENGINES_TRANSLATE: "openai, apertium",
      TROUPE_CONFIG: file("http:\n  port: 9000\n  host: 0.0.0.0")
    })
    expect(config).toMatchObject({ port: 9001, host: "0.0.0.0", enginesTranslate: ["openai", "apertium"] })
  })
  it("G-15: a service's fault is told by the variable that was set, or by its key", () => {
    const faults = [
      "admin.api_key: wants 24 characters",
      "chat.upstreams[0].base_url: is missing",
      "troupe.yaml: http.port: wants an integer",
      "nothing.of_ours: is wrong"
    ]
    expect(new ConfigFault(faults, {}).faults).toEqual(faults)
    const env = { SERVICE_ADMIN_API_KEY: "x", UPSTREAMS: "[{}]", TROUPE_PORT: "1" }
    expect(new ConfigFault(faults, env).message).toBe(
      `configuration:
  SERVICE_ADMIN_API_KEY (admin.api_key): wants 24 characters
  UPSTREAMS (chat.upstreams)[0].base_url: is missing
  troupe.yaml: http.port: wants an integer
  nothing.of_ours: is wrong`
    )
  })
  it("G-15: all faults are told at once, by the names under which they were set", async () => {
    const faults = await faultsOf(
      { TROUPE_PORT: "many", TROUPE_LOG_LEVEL: "loud", TROUPE_TLS_CERT: "x" },
      "storage: { durability: some }\ncolour: blue\nstt: 1"
    )
    expect(faults).toHaveLength(6)
    const text = faults.join("\n")
    expect(text).toContain("TROUPE_PORT (http.port): wants an integer from 0 to 65535")
    expect(text).toContain("TROUPE_LOG_LEVEL (log.level): wants one of")
    expect(text).toContain("troupe.yaml: storage.durability: wants one of full, relaxed")
    expect(text).toContain("TROUPE_TLS_CERT (http.tls_cert) and http.tls_key go together")
    for (const word of ["colour", "stt"])
      expect(text).toContain(`${word} is no configuration key; the nearest is `)
  })
  it("a file that is missing or no YAML is a fault, an empty one is not", async () => {
    await expect(loadConfig({}, "/nowhere/troupe.yaml")).rejects.toThrow(/no such file/)
    expect((await faultsOf({}, "a: [")).length).toBeGreaterThan(0)
    expect(await faultsOf({}, "- 1")).toHaveLength(1)
    expect(await faultsOf({}, "")).toEqual([])
  })
  it("secrets are masked where the configuration is shown", async () => {
    const config = await loadConfig({ OPENAI_API_KEY: "sk-secret", SERVICE_MASTER_KEY: "master" })
    const entries = configEntries(config)
    expect(JSON.stringify(entries)).not.toMatch(/sk-secret|"master"/)
    expect(entries.find(({ name }) => name === "engines.openai_api_key")?.value).toBe("********")
  })
  it("every key has a name of its own, a doc and a default of its kind", () => {
    const envs = Object.values(items).map(({ env }) => env)
    expect(new Set(envs).size).toBe(envs.length)
    for (const [name, { doc, kind, initial }] of Object.entries(items)) {
      expect(doc.endsWith("."), name).toBe(true)
      if (Array.isArray(kind)) expect(kind, name).toContain(initial)
    }
  })
})

describe("keys of the YAML file", () => {
  const entries = Object.entries(items as Record<string, Item>)
  const renamed = entries.filter(([member, { name }]) => name !== undefined && name !== member)

  /** A value of the key's kind that is not its default, as the file says it and as it is read. */
  const sampleOf = ({ name, kind, initial, min }: Item): unknown => {
    if (name?.endsWith("otlp_url") === true) return "http://collector:4318"
    if (Array.isArray(kind)) return kind.find((word) => word !== initial)
    const samples: Record<string, unknown> = {
      string: "Europe/Madrid",
      integer: (min ?? 0) + 1,
      boolean: initial !== true,
      list: ["a", "b"],
      json: [{ id: "x" }],
      duration: 1_234
    }
    return samples[String(kind)]
  }

  /** Both TLS keys belong together. */
  const companionOf = (member: string): string =>
    ({ tlsCert: "http.tls_key: k.pem", tlsKey: "http.tls_cert: c.pem" })[member] ?? ""

  it("one scheme: sections in snake_case, no two alike", () => {
    const names = entries.map(([member, { name }]) => name ?? member)
    expect(new Set(names).size).toBe(names.length)
    for (const name of names)
      if (name !== "client_secret_pepper") expect(name).toMatch(/^[a-z]+(?:_[a-z]+)*\.[a-z]+(?:_[a-z]+)*$/)
  })

  it.each(renamed)(
    "%s: the old key and the new one are the same key, the old one with a warning",
    async (member, item) => {
      const value = sampleOf(item)
      const load = async (key: string) => {
        const warnings: Array<string> = []
        const yaml = `${key}: ${JSON.stringify(value)}\n${companionOf(member)}`
        const config = await loadConfig({}, file(yaml), (line) => warnings.push(line))
        return { value: config[member as keyof typeof config], warnings }
      }
      const byOldKey = await load(member)
      const byNewKey = await load(item.name!)
      expect(byOldKey.value).toEqual(value)
      expect(byNewKey).toEqual({ value, warnings: [] })
      expect(byOldKey.warnings).toHaveLength(1)
      expect(byOldKey.warnings[0]).toContain(`troupe.yaml: ${member} has a new name: ${item.name}`)
    }
  )

  it.each(renamed)("%s: both keys at once are a fault", async (member, item) => {
    const value = JSON.stringify(sampleOf(item))
    const faults = await faultsOf({}, `${member}: ${value}\n${item.name}: ${value}\n${companionOf(member)}`)
    expect(faults).toHaveLength(1)
    expect(faults[0]).toContain(`${item.name} is set twice, as ${member} and as ${item.name}`)
  })

  it("a key written in a section and with a dot is set twice", async () => {
    const [fault] = await faultsOf({}, "http: { port: 9000 }\nhttp.port: 9001")
    expect(fault).toMatch(/http\.port is set twice$/)
  })

  it("an old key warns even where the environment wins, and names the new key in a fault", async () => {
    const warnings: Array<string> = []
    const config = await loadConfig({ STORE_TIME_ZONE: "Europe/Paris" }, file("storeTimeZone: UTC"), (line) =>
      warnings.push(line)
    )
    expect({ zone: config.storeTimeZone, warnings: warnings.length }).toEqual({
      zone: "Europe/Paris",
      warnings: 1
    })
    const [fault] = await faultsOf({}, "storeTimeZone: Mars")
    expect(fault).toBe("store.time_zone: there is no such time zone")
  })
})
