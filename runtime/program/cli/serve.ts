/** `troupe serve` starts a node, prints where it listens and how to try it, and stops on SIGTERM or
 *  SIGINT. */
import { Cause, Effect, Exit, Fiber, Layer } from "effect"
import { ConfigFault, loadConfig } from "../config/config.ts"
import type { LocalSecrets } from "../local-secrets.ts"
import { Configuration, StartFault, step } from "../parts.ts"
import { Node, nodeLayer, type NodeView } from "../start.ts"

const storeLines = ({ storeToken, storeUser, storePassword }: LocalSecrets, url: string) =>
  storeToken === undefined
    ? []
    : [
        `  store token    ${storeToken}`,
        `  store console  ${storeUser} / ${storePassword}  at ${url}/store/admin`
      ]

const oauthLines = (secrets: LocalSecrets) =>
  secrets.oauthClientId === undefined
    ? []
    : [
        `  OAuth client   ${secrets.oauthClientId} / ${secrets.oauthClientSecret}`,
        `  OAuth user     ${secrets.oauthUser} / ${secrets.oauthPassword}`,
        `  OAuth admin    ${secrets.oauthAdminKey}`
      ]

/** Returns example calls to paste into another shell, one per service. */
const exampleLines = (secrets: LocalSecrets, url: string): ReadonlyArray<string> => {
  const { developerKey, storeToken, oauthClientId, oauthClientSecret } = secrets
  const lines = [
    `  text    curl -s ${url}/v2/translate -H 'Authorization: DeepL-Auth-Key ${developerKey}' -H 'Content-Type: application/json' -d '{"text":["The weather is nice today."],"target_lang":"ES"}'`,
    "  speech  npx troupe voice docs/samples/weather.wav --to es",
    `  chat    curl -s ${url}/v1/chat/completions -H 'Content-Type: application/json' -d '{"model":"local/translate","messages":[{"role":"user","content":"Translate to Spanish: The weather is nice today."}]}'`
  ]
  if (storeToken !== undefined)
    lines.push(
      `  store   curl -s '${url}/api/v1/products.json?fields=item_name,price' -H 'X-STORE-Auth-Token: ${storeToken}'`
    )
  if (oauthClientId !== undefined)
    lines.push(
      `  token   curl -s ${url}/oauth/token -u '${oauthClientId}:${oauthClientSecret}' -d grant_type=client_credentials`
    )
  return [...lines, `  health  curl -s ${url}/health/details`]
}

const firstStartLines = (secrets: LocalSecrets, url: string, data: string): ReadonlyArray<string> => [
  "",
  `First start: made ${data} with a master key, a demo account and these keys (npx troupe keys shows them again):`,
  `  developer key  ${secrets.developerKey}`,
  `  admin key      ${secrets.adminKey}`,
  ...storeLines(secrets, url),
  ...oauthLines(secrets),
  "",
  "Try it from another shell:",
  ...exampleLines(secrets, url)
]

const greetingLines = ({ url, createdSecrets, notes }: NodeView, data: string): ReadonlyArray<string> => [
  `Troupe listens on ${url}`,
  ...notes.map((note) => `  note: ${note}`),
  ...(createdSecrets === undefined ? ["  keys: npx troupe keys"] : firstStartLines(createdSecrets, url, data))
]

/** The exit code for a configuration that cannot be used (EX_CONFIG in sysexits.h). */
const wrongConfiguration = 78

const optionsWithValue = ["--config", "--port"]

const configFileOf = (words: ReadonlyArray<string>): string | undefined => {
  const at = words.indexOf("--config")
  return at < 0 ? undefined : (words[at + 1] ?? "")
}

const isServeWord = (word: string, before: string | undefined): boolean =>
  word.startsWith("-")
    ? optionsWithValue.includes(word) || word === "--json"
    : optionsWithValue.includes(before ?? "")

const configuration = (words: ReadonlyArray<string>): Layer.Layer<Configuration, StartFault> =>
  Layer.effect(Configuration)(
    step("configuration", async () => {
      const config = await loadConfig(process.env, configFileOf(words), (line) =>
        console.error(`warning: ${line}`)
      )
      const portAt = words.indexOf("--port")
      return portAt < 0 ? config : { ...config, port: Number(words[portAt + 1]) }
    })
  )

/** Prints what a person needs to use the node, and then warms it up. */
const greeting = (words: ReadonlyArray<string>, warmed: () => void) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const { data } = yield* Configuration
      const node = yield* Node
      console.log(
        words.includes("--json")
          ? JSON.stringify({ url: node.url, port: node.port, ...node.createdSecrets })
          : greetingLines(node, data).join("\n")
      )
      setImmediate(() => void node.warm().then(warmed, warmed))
    })
  )

const signals = ["SIGTERM", "SIGINT"] as const

/** Runs until the first signal, which closes everything in order; the second ends the process at once. */
const untilSignal = async (
  program: Effect.Effect<never, StartFault>
): Promise<Exit.Exit<never, StartFault>> => {
  const fiber = Effect.runFork(program)
  const stop = (): void => {
    fiber.interruptUnsafe()
    for (const signal of signals) process.once(signal, () => process.exit(1))
  }
  for (const signal of signals) process.once(signal, stop)
  return Effect.runPromise(Fiber.await(fiber))
}

/** Says why the process ends, and returns its exit code. */
const exitCodeOf = (exit: Exit.Exit<never, StartFault>): number => {
  if (Exit.isSuccess(exit) || Cause.hasInterruptsOnly(exit.cause)) return 0
  const fault = Cause.squash(exit.cause)
  const cause = fault instanceof StartFault ? fault.cause : fault
  const message = cause instanceof Error ? cause.message : String(cause)
  if (Cause.hasInterrupts(exit.cause)) {
    console.error(`troupe did not stop in order: ${message}`)
    return 1
  }
  const isConfigured = !(fault instanceof StartFault && fault.part === "configuration")
  console.error(isConfigured ? `troupe cannot start: ${message}` : message)
  if (cause instanceof ConfigFault || !isConfigured) return wrongConfiguration
  return (cause as { readonly exitCode?: number }).exitCode ?? 1
}

/** Runs a server until it is stopped; `warmed` is called once nothing of the start is left to do. Exit codes:
 *  0 stopped as requested, 1 could not start, 2 wrong usage, 78 wrong configuration. */
export const serve = async (words: ReadonlyArray<string>, warmed: () => void = () => {}): Promise<number> => {
  const unknown = words.find((word, i) => !isServeWord(word, words[i - 1]))
  const portAt = words.indexOf("--port")
  if (unknown !== undefined || (portAt >= 0 && !Number.isInteger(Number(words[portAt + 1])))) {
    console.error(`serve does not know ${unknown ?? "that port"}`)
    return 2
  }
  const served = greeting(words, warmed).pipe(Layer.provide(nodeLayer()), Layer.provide(configuration(words)))
  return exitCodeOf(await untilSignal(Layer.launch(served)))
}
