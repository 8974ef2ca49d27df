/** `troupe actors` lists and inspects the actors of the running server. */
import { CommanderError } from "commander"
import { call } from "../client.ts"
import { columns, type CliContext } from "../context.ts"

interface ActorRow {
  readonly kind: string
  readonly id: string
  readonly phase: string
  readonly status: string
  readonly mailbox: number
  readonly restarts: number
  readonly lastFault?: string
}

const address = (text: string): readonly [string, string] => {
  const slash = text.indexOf("/")
  if (slash < 1) throw new CommanderError(2, "address", "an address is kind/id")
  return [text.slice(0, slash), text.slice(slash + 1)]
}

const apiPath = (what: string, text: string): string => {
  const [kind, id] = address(text)
  return `/console/api/${what}/${encodeURIComponent(kind)}/${encodeURIComponent(id)}`
}

export const addActors = (cli: CliContext): void => {
  const actors = cli.program.command("actors").description("what lives in the running server")
  actors
    .command("list", { isDefault: true })
    .description("every actor in memory")
    .action(async () => {
      const listed = await call<{ readonly actors: ReadonlyArray<ActorRow> }>(
        await cli.client(),
        "GET",
        "/console/api/actors"
      )
      cli.print(listed, () =>
        columns([
          ["ADDRESS", "PHASE", "STATUS", "MAILBOX", "RESTARTS", "LAST FAULT"],
          ...listed.actors.map(({ kind, id, phase, status, mailbox, restarts, lastFault }) => [
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
  actors
    .command("show")
    .description("one actor's state")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const view = await call(await cli.client(), "GET", apiPath("actors", text))
      cli.print(view, () => JSON.stringify(view, undefined, 2))
    })
  actors
    .command("journal")
    .description("one actor's events since its snapshot")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const events = await call<ReadonlyArray<{ readonly seq: number; readonly event: unknown }>>(
        await cli.client(),
        "GET",
        apiPath("journal", text)
      )
      cli.print(events, () => events.map(({ seq, event }) => `${seq}  ${JSON.stringify(event)}`).join("\n"))
    })
  actors
    .command("restart")
    .description("forgive its crashes and load it anew")
    .argument("<kind/id>")
    .action(async (text: string) => {
      const answer = await call(await cli.client(), "POST", apiPath("restart", text), {})
      cli.print(answer, () => `${text} is restarted`)
    })
}
