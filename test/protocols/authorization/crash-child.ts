/** The server that the crash test kills: the real store, transport and actors. node main.mjs FOLDER; says
 *  `{port, …}` when it answers. */
import { createPublicKey } from "node:crypto"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { revocationIntentsInFile } from "../../../protocols/authorization/token/pending-revocations.ts"
import { Idps, Policies } from "../../../protocols/authorization/records.ts"
import { openLmdb } from "../../../storage/lmdb.ts"
import { World } from "./world.ts"

const folder = process.argv[2]!
const inventoryPath = join(folder, "known.json")
const store = await openLmdb({ folder: join(folder, "store") })
const { idpKey } = JSON.parse(readFileSync(join(folder, "idp.json"), "utf8")) as { idpKey: never }

const world = await World.make({
  store,
  nowMs: Date.now(),
  revocationIntents: revocationIntentsInFile(join(folder, "intents")),
  settings: { issuer: "http://localhost:9" },
  parts: { idps: { keyFor: async () => createPublicKey({ key: idpKey, format: "jwk" }) } }
})

setInterval(() => {
  world.nowMs = Date.now()
}, 5)

if (!existsSync(inventoryPath)) {
  const grantTypes = [
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "urn:ietf:params:oauth:grant-type:token-exchange",
    "urn:ietf:params:oauth:grant-type:jwt-bearer"
  ]
  await world.resource({ slug: "files" })
  const client = await world.client({ grantTypes, scopes: ["files:read", "files:write"] })
  const user = await world.user()
  const browser = world.browser()
  const { books } = world.open.services
  const at = { createdMs: 1, updatedMs: 1 }
  await books.write([
    Idps.put(["idp"], {
      id: "idp",
      name: "idp",
      issuer: "https://idp.example.com",
      jwksUri: "",
      audience: "",
      enabled: true,
      ...at
    }),
    Policies.put(["p"], {
      id: "p",
      name: "p",
      idpId: "idp",
      clientIds: [],
      scopes: [],
      resources: [],
      enabled: true,
      ...at
    })
  ])
  await browser.authorize(world.authorizeUrl(client), user)
  writeFileSync(
    inventoryPath,
    JSON.stringify({
      client,
      user,
      cookie: [...browser.cookies].map(([name, value]) => `${name}=${value}`).join("; ")
    })
  )
}

console.log(
  JSON.stringify({ port: world.server.port, ...(JSON.parse(readFileSync(inventoryPath, "utf8")) as object) })
)
