/** Rows of the first start: section 17, `seed.*`. */
import { Effect } from "effect"
import { expect, it } from "vitest"
import { secretMatches } from "../../../protocols/authorization/client/client-secrets.ts"
import { Clients, Providers, Resources, Users } from "../../../protocols/authorization/records.ts"
import { seedRows } from "../../../protocols/authorization/seed.ts"
import { World } from "./admin/world.ts"

const ports = { hashPassword: () => Effect.succeed("hashed") }

const seeds = {
  resources: [
    { slug: "gh", backend_kind: "broker", broker_provider_slug: "github", scopes: [{ name: "repo" }] },
    { slug: "files", uri: "https://mcp.example.com/mcp" }
  ],
  brokerProviders: [{ slug: "github", protocol: "api_key", config_data: { key: "sk" } }],
  clients: [
    { client_id: "backend", client_name: "Backend", grant_types: ["client_credentials"], scope: "files:read" }
  ],
  users: [{ email: "Ann@example.com", password: "correct horse battery" }],
  idps: [{ name: "Corp", issuer: "https://idp.example" }]
}

it("are made once, a resource may name a provider of the same seed, and a secret is told to whoever starts", async () => {
  const world = new World()
  const { faults, created } = await seedRows(world.authority, seeds, ports)
  expect([faults, created.map(({ list, name }) => `${list} ${name}`)]).toEqual([
    [],
    [
      "seed.broker_providers github",
      "seed.resources gh",
      "seed.resources files",
      "seed.clients backend",
      "seed.users Ann@example.com",
      "seed.idps https://idp.example"
    ]
  ])
  expect(Resources.range(world.store, { limit: 1 })[0]!.value.providerId).toBe(
    Providers.range(world.store, { limit: 1 })[0]!.value.id
  )
  expect(
    secretMatches(
      world.authority,
      Clients.get(world.store, ["backend"]),
      created.find(({ clientSecret }) => clientSecret !== undefined)!.clientSecret!
    )
  ).toBe(true)
  expect(world.audits().map(({ actorId }) => actorId)).toEqual(Array.from({ length: 6 }, () => "seed"))
})

it("later edits are not propagated, deleted rows come back, others stay", async () => {
  const world = new World()
  await seedRows(world.authority, seeds, ports)
  await world.did("DELETE", "/admin/clients/backend")
  const later = await seedRows(
    world.authority,
    {
      ...seeds,
      resources: [{ slug: "files", uri: "https://moved.example" }],
      users: [{ email: "ann@EXAMPLE.com", name: "New" }]
    },
    ports
  )
  expect([
    later.faults,
    later.created.map(({ name }) => name),
    Users.range(world.store, { limit: 9 }).length
  ]).toEqual([[], ["backend"], 1])
  expect((await world.did("GET", "/admin/resources/files")).uri).toBe("https://mcp.example.com/mcp")
})

it("every fault is told, and then nothing is made", async () => {
  const world = new World()
  const { faults, created } = await seedRows(
    world.authority,
    {
      ...seeds,
      clients: [{ client_name: "No id" }, { client_id: "a", client_name: "x" }],
      users: [{ email: "a@b", password: "short" }, { email: "c@d" }, { email: "C@d" }],
      idps: [{ issuer: "http://x", name: "x" }]
    },
    ports
  )
  expect([faults.map((fault) => fault.split(":")[0]), created]).toEqual([
    ["seed.clients[0]", "seed.clients[1]", "seed.users[0]", "seed.users[2]", "seed.idps[0]"],
    []
  ])
  expect([Resources.range(world.store, { limit: 1 }), Users.range(world.store, { limit: 1 })]).toEqual([
    [],
    []
  ])
  expect(
    (
      await seedRows(
        world.authority,
        {
          resources: [
            { slug: "a", uri: "https://a.example" },
            { slug: "b", uri: "https://A.example" }
          ]
        },
        ports
      )
    ).faults
  ).toHaveLength(1)
  expect(Resources.range(world.store, { limit: 1 })).toEqual([])
})
