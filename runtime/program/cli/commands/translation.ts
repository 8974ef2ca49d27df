/** `troupe translate` translates text or documents, and `troupe voice` streams an audio file, both by the
 *  running server. */
import { InvalidArgumentError } from "commander"
import { defined } from "../../../defined.ts"
import { call } from "../client.ts"
import type { CliContext } from "../context.ts"
import type { DocumentTranslation } from "../documents.ts"

const readInput = async (): Promise<string> => {
  const parts: Array<Uint8Array> = []
  for await (const part of process.stdin) parts.push(part as Uint8Array)
  return Buffer.concat(parts).toString("utf8").trimEnd()
}

export const addTranslate = (cli: CliContext): void => {
  cli.program
    .command("translate")
    .description("translate text, standard input with -, or documents by their file names")
    .argument("<text-or-files...>")
    .requiredOption("--to <language>", "target language")
    .option("--text", "take the words as text, also where they look like file names")
    .option("--from <language>", "source language (default: detected)")
    .option("--formality <formality>", "default, more, less, prefer_more, prefer_less")
    .option(
      "--out <path>",
      "documents: where the result goes, a file or a folder (default: beside the source)"
    )
    .option("--format <extension>", "documents: another output format, pdf to docx")
    .option("--watermark", "documents: say who translated, in docx and pdf")
    .action(async (texts: Array<string>, options: DocumentTranslation & { readonly text?: boolean }) => {
      const { to, from, formality } = options
      const documents = await import("../documents.ts")
      if (options.text !== true && documents.areDocuments(texts)) {
        const results = await documents.translateDocuments(await cli.client(), texts, options)
        cli.print(results, () =>
          results
            .map(({ file, output, error }) =>
              output === undefined ? `${file}: ${error}` : `${file} -> ${output}`
            )
            .join("\n")
        )
        if (results.some(({ error }) => error !== undefined)) process.exitCode = 1
        return
      }
      const text = texts.length === 1 && texts[0] === "-" ? [await readInput()] : texts
      const answer = await call<{
        translations: ReadonlyArray<{ text: string; detected_source_language: string }>
      }>(await cli.client(), "POST", "/v2/translate", {
        text,
        target_lang: to,
        ...defined({ source_lang: from, formality })
      })
      cli.print(answer, () => answer.translations.map(({ text }) => text).join("\n"))
    })
}

const paceOf = (text: string): number => {
  const pace = Number(text)
  if (pace > 0 && pace <= 2) return pace
  throw new InvalidArgumentError("It wants a number above 0, at most 2.")
}

export const addVoice = (cli: CliContext): void => {
  cli.program
    .command("voice")
    .description("stream an audio file (WAV, Ogg, WebM, FLAC, MP3) and show captions as they come")
    .argument("<file>")
    .requiredOption(
      "--to <languages>",
      "target languages, comma-separated; none for a transcript only",
      "none"
    )
    .option("--from <language>", "source language")
    .option("--pace <factor>", "speed of sending against real time, at most 2", paceOf, 1)
    .option("--speak <language>", "also ask for speech in this language")
    .option("--out <file>", "where that speech goes (WebM)")
    .action(
      async (
        file: string,
        options: { to: string; from?: string; pace: number; speak?: string; out?: string }
      ) => {
        const { voice } = await import("../voice.ts")
        await voice(await cli.client(), file, {
          ...options,
          targets: options.to === "none" ? [] : options.to.split(","),
          json: cli.json
        })
      }
    )
}
