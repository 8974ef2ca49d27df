/** Folders of data that earlier programs have written (data/README.md) are opened by the program of today, as copies, with the configuration files
 *  of then: everything is there, answers as it did, and can be worked with. Red means: somebody's data cannot be read any more. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Known } from "./data/asking/asked.ts"
import {
  blobs,
  counters,
  emptyTables,
  files,
  keptKinds,
  memoryKinds,
  newestTags,
  tables
} from "./data/checklist.ts"
import { Outside } from "./data/outside.ts"
import { inventoryOf, unpack, type Inventory } from "./data/program.ts"
import { asked, laterMs } from "./data/questions.ts"
import { opened, type Transcript } from "./data/recording.ts"

const root = new URL("../..", import.meta.url).pathname
const tools = join(root, "test/samples/data")
/** Folders that hold samples. */
const commits = readdirSync(tools).filter((name) => existsSync(join(tools, name, "full.tar.gz")))
interface Expected extends Transcript {
  readonly before: Inventory
}
const readJson = <A>(path: string): A => JSON.parse(readFileSync(path, "utf8")) as A
const unique = (names: ReadonlyArray<string>): ReadonlyArray<string> => [...new Set(names)].sort()

describe.each(commits)("data of %s", (commit) => {
  const folder = join(tools, commit)
  const samples = readdirSync(folder)
    .filter((name) => name.endsWith(".tar.gz"))
    .map((name) => name.slice(0, -".tar.gz".length))
  const work = mkdtempSync(join(tmpdir(), "troupe-samples-"))
  afterAll(() => {
    rmSync(work, { recursive: true, force: true })
  })

  it("holds every kind, table, counter and file that the program can keep", async () => {
    const inventories: Array<Inventory> = []
    const beside = new Set<string>()
    for (const name of samples) {
      const data = join(work, `${name}-seen`)
      unpack(join(folder, `${name}.tar.gz`), data)
      for (const file of readdirSync(data)) beside.add(file)
      inventories.push(await inventoryOf(data))
      expect(inventories.at(-1), name).toEqual(
        readJson<Expected>(join(folder, `${name}.expected.json`)).before
      )
    }
    const all = (of: (inventory: Inventory) => object): ReadonlyArray<string> =>
      unique(inventories.flatMap((inventory) => Object.keys(of(inventory))))
    expect(
      Object.fromEntries(
        all(({ tags }) => tags).map((kind) => [
          kind,
          unique(inventories.flatMap(({ tags }) => tags[kind] ?? []))
        ])
      )
    ).toEqual(keptKinds)
    const newest = inventories.find(({ kinds }) => "refresh-family" in kinds)?.newest ?? {}
    for (const [kind, tags] of Object.entries(newestTags))
      expect(newest[kind], kind).toEqual(expect.arrayContaining([...tags]))
    expect(all(({ tables }) => tables)).toEqual(unique(tables))
    expect(all((inventory) => inventory.counters)).toEqual(unique(counters))
    expect(all((inventory) => inventory.blobs)).toEqual(unique(blobs))
    expect([...beside].filter((file) => file !== "store.lmdb-lock").sort()).toEqual(files)
    expect(inventories.flatMap(({ others }) => others)).toEqual(samples.map(() => "m schema"))
  })

  /** All settings in force, of which later builds have more. */
  const settingsQuestion = "GET /admin/system/config"

  /** Later builds remove finished requests at once, and count fewer entries; what it finds is asserted below. */
  const checkQuestion = "check"

  /** Their rows leave in the background, sooner or later. */
  const emptiedTables = new Set(["translation-garbage", "chat-forgotten", "chat-background"])

  /** Forms say where they go relative to their page, because an issuer may have a path. */
  const withRelativeForms = (answer: unknown): unknown =>
    JSON.parse(JSON.stringify(answer).replaceAll('action=\\"/authorize\\"', 'action=\\"authorize\\"'))

  describe.each(samples)("%s", (name) => {
    const expected = readJson<Expected>(join(folder, `${name}.expected.json`))
    let said: Transcript
    beforeAll(async () => {
      const facts = readJson<Known>(join(folder, `${name}.known.json`))
      const outside = await Outside.open()
      try {
        const place = {
          root,
          tools,
          data: join(work, name, "data"),
          config: join(folder, `${name}.yaml`),
          outside,
          clockMs: (facts["recordedMs"] as number) + laterMs
        }
        unpack(join(folder, `${name}.tar.gz`), place.data)
        said = opened(expected, await asked({ place, facts: facts, name })) as Transcript
      } finally {
        await outside.close()
      }
    }, 60_000)

    it("answers every question as it did", () => {
      for (const [question, answer] of Object.entries(expected.answers))
        if (question === settingsQuestion) expect(said.answers[question]).toMatchObject(answer as object)
        else if (question === checkQuestion) expect(said.answers[question]).toMatchObject({ status: 200 })
        else expect(said.answers[question], question).toEqual(withRelativeForms(answer))
      expect(Object.keys(said.answers)).toEqual(Object.keys(expected.answers))
    })
    it("every actor is there in its state, none has failed, its events can be read", () => {
      for (const [address, state] of Object.entries(expected.states))
        expect(said.states[address], address).toEqual(state)
      for (const [address, events] of Object.entries(expected.journals))
        expect(said.journals[address], address).toEqual(events)
      // Each was woken; those of these three kinds are over in the course of the questions, and are seen by their answers.
      const woken = new Set(
        Object.entries(said.states)
          .filter(([, state]) => typeof state === "object")
          .map(([at]) => at.slice(at.indexOf(": ") + 2))
      )
      expect(
        expected.before.actors.filter(
          (address) => !woken.has(address) && !/^(?:document-job|voice-job|voice-session)\//.test(address)
        )
      ).toEqual([])
      expect(
        Object.values(said.states).filter((state) => (state as { readonly failed?: boolean }).failed === true)
      ).toEqual([])
    })
    it("the program hosts the kinds of the checklist, finds no fault in its store, and writes under the names of then", () => {
      expect(said.answers["check"]?.body).toMatchObject({ ok: true, faults: [] })
      expect(said.answers["kinds that are hosted"]?.body).toEqual(
        expected.answers["kinds that are hosted"]?.body
      )
      if (name === "full")
        expect(said.answers["kinds that are hosted"]?.body).toEqual(
          unique([...Object.keys(keptKinds), ...memoryKinds]).map((kind) => `${kind}, failed 0`)
        )
      const tablesAfter = said.after.tables.filter((table) => !emptiedTables.has(table))
      expect({ ...said.after, tables: tablesAfter }).toEqual(expected.after)
      for (const table of said.after.tables) expect([...tables, ...emptyTables]).toContain(table)
    })
  })
})

it("the samples are as small as they should be", () => {
  expect(existsSync(join(tools, "README.md"))).toBe(true)
  for (const commit of commits)
    for (const file of readdirSync(join(tools, commit)))
      expect(readFileSync(join(tools, commit, file)).length, file).toBeLessThan(1_048_576)
})
