/** `troupe serve`: starts a node, says where it listens and how to try it, stops on SIGTERM or SIGINT. */
import { ConfigFault, loadConfig, type Config } from "../config/config.ts"
import { startNode, type RunningNode } from "../start.ts"

const tryLines = ({ url, createdSecrets: made, notes }: RunningNode, data: string): ReadonlyArray<string> => [
  `Troupe listens on ${url}`,
  ...notes.map((note) => `  note: ${note}`),
  ...(made === undefined
    ? ["  keys: npx troupe keys"]
    : [
        "",
        `First start: made ${data} with a master key, a demo account and these keys (npx troupe keys shows them again):`,
        `  developer key  ${made.developerKey}`,
        `  admin key      ${made.adminKey}`,
        ...(made.storeToken === undefined
          ? []
          : [
              `  store token    ${made.storeToken}`,
              `  store console  ${made.storeUser} / ${made.storePassword}  at ${url}/store/admin`
            ]),
        ...(made.oauthClientId === undefined
          ? []
          : [
              `  OAuth client   ${made.oauthClientId} / ${made.oauthClientSecret}`,
              `  OAuth user     ${made.oauthUser} / ${made.oauthPassword}`,
              `  OAuth admin    ${made.oauthAdminKey}`
            ]),
        "",
        "Try it from another shell:",
        `  text    curl -s ${url}/v2/translate -H 'Authorization: DeepL-Auth-Key ${made.developerKey}' -H 'Content-Type: application/json' -d '{"text":["The weather is nice today."],"target_lang":"ES"}'`,
        "  speech  npx troupe voice docs/samples/weather.wav --to es",
        `  chat    curl -s ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"local/translate","messages":[{"role":"user","content":"Translate to Spanish: The weather is nice today."}]}'`,
        ...(made.storeToken === undefined
          ? []
          : [
              `  store   curl -s '${url}/api/v1/products.json?fields=item_name,price' -H 'X-STORE-Auth-Token: ${made.storeToken}'`
            ]),
        ...(made.oauthClientId === undefined
          ? []
          : [
              `  token   curl -s ${url}/oauth/token -u '${made.oauthClientId}:${made.oauthClientSecret}' -d grant_type=client_credentials`
            ]),
        `  health  curl -s ${url}/health/details`
      ])
]

/** sysexits.h: a configuration that cannot be started with. */
const wrongConfiguration = 78

/** `warmed`: called once nothing of the start is left to do. Exit code: 0 stopped as asked, 1 could not
 *  start, 2 wrong words, 78 wrong configuration. */
export const serve = async (words: ReadonlyArray<string>, warmed: () => void = () => {}): Promise<number> => {
  let config: Config
  try {
    const at = words.indexOf("--config")
    config = await loadConfig(process.env, at < 0 ? undefined : (words[at + 1] ?? ""))
    const portAt = words.indexOf("--port")
    if (portAt >= 0) config = { ...config, port: Number(words[portAt + 1]) }
    const unknown = words.find((word, i) =>
      word.startsWith("-")
        ? word !== "--config" && word !== "--port" && word !== "--json"
        : !["--config", "--port"].includes(words[i - 1] ?? "")
    )
    if (unknown !== undefined || !Number.isInteger(config.port)) {
      console.error(`serve does not know ${unknown ?? "that port"}`)
      return 2
    }
  } catch (cause) {
    console.error(cause instanceof ConfigFault ? cause.message : cause)
    return wrongConfiguration
  }
  let node: RunningNode
  try {
    node = await startNode(config)
  } catch (cause) {
    console.error(`troupe cannot start: ${cause instanceof Error ? cause.message : String(cause)}`)
    return cause instanceof ConfigFault
      ? wrongConfiguration
      : ((cause as { readonly exitCode?: number }).exitCode ?? 1)
  }
  console.log(
    words.includes("--json")
      ? JSON.stringify({ url: node.url, port: node.port, ...node.createdSecrets })
      : tryLines(node, config.data).join("\n")
  )
  setImmediate(() => void node.warm().then(warmed, warmed))
  await new Promise<void>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve())
  })
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => process.exit(1))
  await node.stop()
  return 0
}
