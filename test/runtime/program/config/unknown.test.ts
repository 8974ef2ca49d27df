/** Settings that nobody reads are named. Source: docs/operations.md, "Configuration". */
import { mkdtempSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import { items, loadConfig } from "../../../../runtime/program/config/config.ts"
import { unknownVariables } from "../../../../runtime/program/config/unknown.ts"

const settings = Object.values(items).map(({ env }) => env)

it("A-10: an unknown variable with a prefix of ours is named at start, with the nearest name", async () => {
  const warnings: Array<string> = []
  const env = {
    SERVICE_SERVER_ISSUR: "https://id.example",
    STORE_DOMAINS: "shop.example",
    TROUPE_TRUSTED_PROXY: "10.0.0.1"
  }
  await loadConfig(env, undefined, (line) => warnings.push(line))
  expect(warnings).toEqual([
    "SERVICE_SERVER_ISSUR is no setting; the nearest is SERVICE_SERVER_ISSUER",
    "STORE_DOMAINS is no setting; the nearest is STORE_DOMAIN",
    "TROUPE_TRUSTED_PROXY is no setting; the nearest is TROUPE_TRUSTED_PROXIES"
  ])
})

it("A-10: of the names that others may use too, a slip of the pen is told, and nothing else", () => {
  expect(unknownVariables({ UPSTREAM_CONECT_TIMEOUT: "1", OPENAI_ORGANIZATION: "x" }, settings)).toHaveLength(
    0
  )
  const [some] = settings.filter((name) => name.startsWith("BUILTIN_"))
  expect(unknownVariables({ [`${some}S`]: "1" }, settings)).toEqual([
    `${some}S is no setting; the nearest is ${some}`
  ])
})

it("what is a setting, is read before there are settings, or is set by a platform, is not named", () => {
  const env = Object.fromEntries(settings.map((name) => [name, "x"]))
  expect(unknownVariables(env, settings)).toEqual([])
  const others = {
    TROUPE_CONFIG: "x",
    STORE_SERVICE_HOST: "10.0.0.1",
    STORE_PORT_80_TCP: "tcp://x",
    PATH: "x"
  }
  expect(unknownVariables(others, settings)).toEqual([])
})

it("an unknown key of the file is a fault that names the nearest", async () => {
  const path = join(mkdtempSync(join(tmpdir(), "troupe-config-")), "troupe.yaml")
  writeFileSync(path, "http: { prot: 1 }")
  await expect(loadConfig({}, path)).rejects.toThrow(
    "http.prot is no configuration key; the nearest is http.port"
  )
})
