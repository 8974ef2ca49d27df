/** `troupe serve` starts a node, prints where it listens and how to try it, and stops on SIGTERM or
 *  SIGINT. */
import { Cause, Effect, Exit, Fiber, Layer } from "effect"
import { join } from "node:path"
import { writeWhole } from "../../../storage/files.ts"
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

const secretLines = (secrets: LocalSecrets, url: string): ReadonlyArray<string> => [
  `  developer key  ${secrets.developerKey}`,
  `  admin key      ${secrets.adminKey}`,
  ...storeLines(secrets, url),
  ...oauthLines(secrets),
  "",
  "Try it from another shell:",
  ...exampleLines(secrets, url)
]

/** Where new secrets go when nobody reads them from a terminal: what is printed then stays in a log. */
const secretsFile = "first-start.txt"

interface Greeting {
  readonly node: NodeView
  readonly data: string
  /** The file that holds the new secrets; undefined when they are printed. */
  readonly file: string | undefined
}

const firstStartLines = (secrets: LocalSecrets, { node, data, file }: Greeting): ReadonlyArray<string> => {
  const intro = `First start: made ${data} with a master key, a demo account and`
  return file === undefined
    ? ["", `${intro} these keys (npx troupe keys shows them again):`, ...secretLines(secrets, node.url)]
    : ["", `${intro} keys.`, `  keys, and how to try them: ${file} (or npx troupe keys)`]
}

const greetingLines = (greeting: Greeting): ReadonlyArray<string> => {
  const { url, createdSecrets, notes } = greeting.node
  return [
    `Troupe listens on ${url}`,
    ...notes.map((note) => `  note: ${note}`),
    ...(createdSecrets === undefined
      ? ["  keys: npx troupe keys"]
      : firstStartLines(createdSecrets, greeting))
  ]
}

const greetingJson = ({ node: { url, port, createdSecrets }, file }: Greeting): string =>
  JSON.stringify({ url, port, ...(file === undefined ? createdSecrets : { secretsFile: file }) })

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

/** Splits `--port=80` in two, as every command line takes it. */
const splitOption = (word: string): ReadonlyArray<string> => {
  const at = word.indexOf("=")
  return word.startsWith("--") && at > 0 ? [word.slice(0, at), word.slice(at + 1)] : [word]
}

const portMax = 65_535

/** Says what is wrong with the words; undefined when nothing is. */
const misuseOf = (words: ReadonlyArray<string>): string | undefined => {
  const valueOf = (option: string): string | undefined =>
    words.includes(option) ? (words[words.indexOf(option) + 1] ?? "") : undefined
  const port = valueOf("--port")
  if (port !== undefined && !(/^\d+$/.test(port) && Number(port) <= portMax))
    return `--port wants an integer from 0 to ${portMax}${port === "" ? "" : `, not ${port}`}`
  if (/^(?:--.*)?$/.test(valueOf("--config") ?? "file")) return "--config wants a file"
  const unknown = words.find((word, i) => !isServeWord(word, words[i - 1]))
  return unknown === undefined ? undefined : `serve does not know ${unknown}; see npx troupe serve --help`
}

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
      const { data, printSecrets } = yield* Configuration
      const node = yield* Node
      const secrets = node.createdSecrets
      const isPrinted = secrets === undefined || printSecrets === "always" || process.stdout.isTTY
      const file = isPrinted ? undefined : join(data, secretsFile)
      if (file !== undefined)
        yield* step("first start", () => writeWhole(file, `${secretLines(secrets!, node.url).join("\n")}\n`))
      const greeting = { node, data, file }
      console.log(words.includes("--json") ? greetingJson(greeting) : greetingLines(greeting).join("\n"))
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
export const serve = async (typed: ReadonlyArray<string>, warmed: () => void = () => {}): Promise<number> => {
  const words = typed.flatMap(splitOption)
  const misuse = misuseOf(words)
  if (misuse !== undefined) {
    console.error(misuse)
    return 2
  }
  const served = greeting(words, warmed).pipe(Layer.provide(nodeLayer()), Layer.provide(configuration(words)))
  return exitCodeOf(await untilSignal(Layer.launch(served)))
}
