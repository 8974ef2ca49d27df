/** The command line. Exit codes: 0 done, 1 failed, 2 wrong use, 78 a configuration that cannot be used.
 *  `--json` prints one JSON value instead of words. */
import { Command, CommanderError } from "commander"
import { existsSync } from "node:fs"
import { ConfigFault, items, loadConfig, maskedConfig, type Item } from "../config/config.ts"
import { restore, openLmdb } from "../../../storage/lmdb.ts"
import { clientOf, call, type Client } from "./client.ts"

const say = (json: boolean, value: unknown, words: () => string): void =>
  console.log(json ? JSON.stringify(value) : words())

const columns = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = rows[0]?.map((_, i) => Math.max(...rows.map((row) => (row[i] ?? "").length))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i]!))
        .join("  ")
        .trimEnd()
    )
    .join("\n")
}

const address = (text: string): readonly [string, string] => {
  const slash = text.indexOf("/")
  if (slash < 1) throw new CommanderError(2, "address", "an address is kind/id")
  return [text.slice(0, slash), text.slice(slash + 1)]
}

export const run = async (argv: ReadonlyArray<string>): Promise<number> => {
  const program = new Command("troupe")
    .description("Actor-based runtime that serves translation and live voice, among others.")
    .option("--json", "print JSON")
    .option("--url <url>", "the running server (default: http://localhost:<port>)")
    .option("--key <key>", "API key (default: the demo key of the data folder)")
    .option("--config <file>", "YAML configuration file")
    .showHelpAfterError()
    .exitOverride()
  const options = () => program.opts<{ json?: boolean; url?: string; key?: string; config?: string }>()
  const json = (): boolean => options().json === true
  const client = async (): Promise<Client> =>
    clientOf(await loadConfig(process.env, options().config), options())

  program
    .command("serve")
    .description("start the server")
    .option("--port <port>", "TCP port")
    .action(async ({ port }: { port?: string }) => {
      const { serve } = await import("./serve.ts")
      process.exitCode = await serve([
        ...(options().config === undefined ? [] : ["--config", options().config!]),
        ...(port === undefined ? [] : ["--port", port]),
        ...(json() ? ["--json"] : [])
      ])
    })
  program
    .command("translate")
    .description("translate text, standard input with -, or documents by their file names")
    .argument("<text-or-files...>")
    .requiredOption("--to <language>", "target language")
    .option("--from <language>", "source language (default: detected)")
    .option("--formality <formality>", "default, more, less, prefer_more, prefer_less")
    .option(
      "--out <path>",
      "documents: where the result goes, a file or a folder (default: beside the source)"
    )
    .option("--format <extension>", "documents: another output format, pdf to docx")
    .option("--watermark", "documents: say who translated, in docx and pdf")
    .action(
      async (
        texts: Array<string>,
        given: {
          to: string
          from?: string
          formality?: string
          out?: string
          format?: string
          watermark?: boolean
        }
      ) => {
        const { to, from, formality } = given
        const documents = await import("./documents.ts")
        if (documents.areDocuments(texts)) {
          const results = await documents.translateDocuments(await client(), texts, given)
          say(json(), results, () =>
            results
              .map(({ file, output, error }) =>
                output === undefined ? `${file}: ${error}` : `${file} -> ${output}`
              )
              .join("\n")
          )
          if (results.some(({ error }) => error !== undefined)) process.exitCode = 1
          return
        }
        const asked = texts.length === 1 && texts[0] === "-" ? [await readInput()] : texts
        const answer = await call<{
          translations: ReadonlyArray<{ text: string; detected_source_language: string }>
        }>(await client(), "POST", "/v2/translate", {
          text: asked,
          target_lang: to,
          ...(from === undefined ? {} : { source_lang: from }),
          ...(formality === undefined ? {} : { formality })
        })
        say(json(), answer, () => answer.translations.map(({ text }) => text).join("\n"))
      }
    )
  program
    .command("voice")
    .description("stream an audio file (WAV, Ogg, WebM, FLAC, MP3) and show captions as they come")
    .argument("<file>")
    .requiredOption(
      "--to <languages>",
      "target languages, comma-separated; none for a transcript only",
      "none"
    )
    .option("--from <language>", "source language")
    .option("--pace <factor>", "speed of sending against real time, at most 2", "1")
    .option("--speak <language>", "also ask for speech in this language")
    .option("--out <file>", "where that speech goes (WebM)")
    .action(
      async (
        file: string,
        given: { to: string; from?: string; pace: string; speak?: string; out?: string }
      ) => {
        const { voice } = await import("./voice.ts")
        await voice(await client(), file, {
          ...given,
          targets: given.to === "none" ? [] : given.to.split(","),
          pace: Number(given.pace),
          json: json()
        })
      }
    )
  const keys = program
    .command("keys")
    .description("the local account's API keys")
    .action(async () => {
      const { secrets } = await client()
      if (secrets === undefined)
        throw new Error(
          "no local keys: nothing has started in this data folder, or its master key is another"
        )
      say(json(), secrets, () =>
        columns([
          ["developer key", secrets.developerKey],
          ["admin key", secrets.adminKey],
          ["operator token", secrets.operatorToken],
          ["account", secrets.accountId],
          ...Object.entries(secrets)
            .filter(([name]) => /^(?:store|oauth)/.test(name))
            .map(([name, value]) => [
              name.replace(/[A-Z]/g, (upper) => ` ${upper.toLowerCase()}`),
              String(value)
            ])
        ])
      )
    })
  interface KeyRow {
    readonly keyId: string
    readonly label: string
    readonly masked: string
    readonly role: string
    readonly deactivatedMs: number | null
  }
  keys
    .command("list")
    .description("every key, masked")
    .action(async () => {
      const rows = await call<ReadonlyArray<KeyRow>>(await client(), "GET", "/console/api/keys")
      say(json(), rows, () =>
        columns([
          ["ID", "ROLE", "LABEL", "KEY", "STATE"],
          ...rows.map(({ keyId, role, label, masked, deactivatedMs }) => [
            keyId,
            role,
            label,
            masked,
            deactivatedMs === null ? "active" : "deactivated"
          ])
        ])
      )
    })
  keys
    .command("create")
    .description("a new developer key; its secret is shown once")
    .argument("[label]")
    .action(async (label: string | undefined) => {
      const made = await call<KeyRow & { readonly key: string }>(
        await client(),
        "POST",
        "/console/api/keys",
        label === undefined ? {} : { label }
      )
      say(
        json(),
        made,
        () => `${made.key}\n(key id ${made.keyId}; the secret is not kept and not shown again)`
      )
    })
  keys
    .command("deactivate")
    .description("at once and for good")
    .argument("<key-id>")
    .action(async (id: string) => {
      const key = await call<KeyRow>(
        await client(),
        "POST",
        `/console/api/keys/${encodeURIComponent(id)}/deactivate`,
        {}
      )
      say(json(), key, () => `${key.keyId} is deactivated`)
    })
  program
    .command("store")
    .description("the store")
    .command("import")
    .description("import records from a file of JSON lines, in batches, with progress")
    .argument("<file>", "one record a line, as the API takes it")
    .option("--resource <name>", "what the lines are", "products")
    .option("--singular <name>", "its singular, where it is not the name without s")
    .option("--lookup-by-sku", "products: a known item_number is updated")
    .option("--token <token>", "admin token (default: the demo store's)")
    .action(
      async (
        file: string,
        given: { resource: string; singular?: string; lookupBySku?: boolean; token?: string }
      ) => {
        const { storeImport } = await import("./store-import.ts")
        process.exitCode = await storeImport(await client(), file, {
          ...given,
          json: json(),
          headerPrefix: (await loadConfig(process.env, options().config)).storeHeaderPrefix
        })
      }
    )
  program
    .command("config")
    .description("the configuration in force, secrets masked")
    .option("--doc", "with what each key means")
    .action(async ({ doc }: { doc?: boolean }) => {
      const config = maskedConfig(await loadConfig(process.env, options().config))
      say(json(), config, () =>
        columns(
          Object.entries(config).map(([name, value]) => [
            name,
            (items[name as keyof typeof items] as Item).env,
            JSON.stringify(value),
            ...(doc === true ? [items[name as keyof typeof items].doc] : [])
          ])
        )
      )
    })

  interface ActorRow {
    readonly kind: string
    readonly id: string
    readonly phase: string
    readonly status: string
    readonly mailbox: number
    readonly restarts: number
    readonly lastFault?: string
  }
  const actors = program.command("actors").description("what lives in the running server")
  actors
    .command("list", { isDefault: true })
    .description("every actor in memory")
    .action(async () => {
      const found = await call<{ readonly actors: ReadonlyArray<ActorRow> }>(
        await client(),
        "GET",
        "/console/api/actors"
      )
      say(json(), found, () =>
        columns([
          ["ADDRESS", "PHASE", "STATUS", "MAILBOX", "RESTARTS", "LAST FAULT"],
          ...found.actors.map(({ kind, id, phase, status, mailbox, restarts, lastFault }) => [
            `${kind}/${id}`,
            phase,
            status,
            String(mailbox),
            String(restarts),
            lastFault ?? ""
          ])
        ])
      )
    })
  const path = (what: string, text: string): string => {
    const [kind, id] = address(text)
    return `/console/api/${what}/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`
  }
  actors
    .command("show")
    .description("one actor's state")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const view = await call(await client(), "GET", path("actors", text))
      say(json(), view, () => JSON.stringify(view, undefined, 2))
    })
  actors
    .command("journal")
    .description("one actor's events since its snapshot")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const events = await call<ReadonlyArray<{ readonly seq: number; readonly event: unknown }>>(
        await client(),
        "GET",
        path("journal", text)
      )
      say(json(), events, () => events.map(({ seq, event }) => `${seq}  ${JSON.stringify(event)}`).join("\n"))
    })
  actors
    .command("restart")
    .description("forgive its crashes and load it anew")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const answer = await call(await client(), "POST", path("restart", text), {})
      say(json(), answer, () => `${text} is restarted`)
    })

  program
    .command("backup")
    .description(
      "a consistent copy into an empty folder, also while the server runs; the master key is not part of it"
    )
    .argument("<folder>")
    .action(async (folder: string) => {
      const target = new URL(`file://${process.cwd()}/`).pathname
      const to = folder.startsWith("/") ? folder : `${target}${folder}`
      const config = await loadConfig(process.env, options().config)
      const up = clientOf(config, options())
      const running = await fetch(`${up.url}/livez`).then(
        (answer) => answer.ok,
        () => false
      )
      if (running) await call(up, "POST", "/console/api/backup", { folder: to })
      else {
        const store = await openLmdb({ folder: config.data })
        try {
          await store.backup(to)
        } finally {
          await store.close()
        }
      }
      say(json(), { folder: to }, () => `backed up to ${to}`)
    })
  program
    .command("restore")
    .description("bring a backup into the empty data folder of a stopped server")
    .argument("<folder>")
    .action(async (folder: string) => {
      const config = await loadConfig(process.env, options().config)
      if (!existsSync(folder)) throw new Error(`${folder}: no such folder`)
      await restore(folder, config.data)
      say(json(), { data: config.data }, () => `restored into ${config.data}`)
    })
  program
    .command("check")
    .description("integrity of the data of the running server")
    .action(async () => {
      const report = await call<{
        readonly ok: boolean
        readonly entries: number
        readonly faults: ReadonlyArray<string>
      }>(await client(), "GET", "/console/api/check")
      say(json(), report, () =>
        [`${report.entries} entries, ${report.ok ? "all well" : "faults:"}`, ...report.faults].join("\n")
      )
      if (!report.ok) process.exitCode = 1
    })

  try {
    await program.parseAsync(argv as Array<string>)
    return Number(process.exitCode ?? 0)
  } catch (cause) {
    if (cause instanceof CommanderError) {
      if (cause.code === "address") console.error(cause.message)
      return cause.exitCode === 0 ? 0 : 2
    }
    console.error(cause instanceof ConfigFault || cause instanceof Error ? cause.message : String(cause))
    return cause instanceof ConfigFault ? 78 : 1
  }
}

const readInput = async (): Promise<string> => {
  const parts: Array<Uint8Array> = []
  for await (const part of process.stdin) parts.push(part as Uint8Array)
  return Buffer.concat(parts).toString("utf8").trimEnd()
}
