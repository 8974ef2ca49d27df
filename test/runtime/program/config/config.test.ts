import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { ConfigFault, items, loadConfig, maskedConfig } from "../../../../runtime/program/config/config.ts"

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
    expect((await loadConfig({}, file("port: 9000\nenginesTranslate: [apertium]"))).enginesTranslate).toEqual(
      ["apertium"]
    )
    const config = await loadConfig({
      TROUPE_PORT: "9001",
      ENGINES_TRANSLATE: "openai, apertium",
      TROUPE_CONFIG: file("port: 9000\nhost: 0.0.0.0")
    })
    expect([config.port, config.host, config.enginesTranslate]).toEqual([
      9001,
      "0.0.0.0",
      ["openai", "apertium"]
    ])
  })
  it("all faults are told at once", async () => {
    const faults = await faultsOf(
      { TROUPE_PORT: "many", TROUPE_LOG_LEVEL: "loud", TROUPE_TLS_CERT: "x" },
      "durability: some\ncolour: blue\nstt: 1"
    )
    expect(faults).toHaveLength(6)
    expect(faults.join("\n")).toMatch(/TROUPE_PORT: wants an integer from 0 to 65535[^]*|colour/)
    for (const word of ["TROUPE_PORT", "TROUPE_LOG_LEVEL", "durability", "colour", "stt", "tlsCert"])
      expect(faults.join("\n")).toContain(word)
  })
  it("a file that is missing or no YAML is a fault, an empty one is not", async () => {
    await expect(loadConfig({}, "/nowhere/troupe.yaml")).rejects.toThrow(/no such file/)
    expect((await faultsOf({}, "a: [")).length).toBeGreaterThan(0)
    expect(await faultsOf({}, "- 1")).toHaveLength(1)
    expect(await faultsOf({}, "")).toEqual([])
  })
  it("secrets are masked where the configuration is shown", async () => {
    const text = JSON.stringify(
      maskedConfig(await loadConfig({ OPENAI_API_KEY: "sk-secret", SERVICE_MASTER_KEY: "master" }))
    )
    expect(text).not.toMatch(/sk-secret|"master"/)
    expect(text).toContain('"openaiApiKey":"********"')
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
