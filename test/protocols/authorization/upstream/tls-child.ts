/** A process that trusts one more certificate (NODE_EXTRA_CA_CERTS is read at start only) and fetches from a
 *  local server by name. node main.mjs PORT HOST…; says a line per host. */
import { Effect } from "effect"
import { SafeFetch } from "../../../../protocols/authorization/upstream/safe-fetch.ts"

const [port, ...hosts] = process.argv.slice(2)
const fetcher = new SafeFetch(async () => [{ address: "127.0.0.1", family: 4 }])

for (const host of hosts) {
  const fetching = fetcher.fetch({
    url: `https://${host}:${port}/`,
    bodyBytesMax: 1_000,
    timeoutMs: 5_000,
    allowPrivateAddresses: true,
    allowHttp: false
  })
  process.stdout.write(
    `${host} ${await Effect.runPromise(
      Effect.match(fetching, {
        onFailure: ({ reason }): string => reason,
        onSuccess: ({ status, body }) => `${status} ${Buffer.from(body).toString()}`
      })
    )}\n`
  )
}

process.stdout.write("done\n")
