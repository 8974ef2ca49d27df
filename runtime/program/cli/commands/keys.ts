/** `troupe keys` prints the local secrets and manages the API keys of the running server, and the signing keys
 *  of its authorization server. */
import { call } from "../client.ts"
import { columns, type CliContext } from "../context.ts"

interface KeyRow {
  readonly keyId: string
  readonly label: string
  readonly masked: string
  readonly role: string
  readonly deactivatedMs: number | null
}

interface SigningKeyRow {
  readonly kid: string
  readonly alg: string
  readonly status: string
  readonly created_at: string
}

interface WithdrawnKeyRow {
  readonly kid: string
  readonly successor: string | null
}

export const addKeys = (cli: CliContext): void => {
  const keys = cli.program
    .command("keys")
    .description("the local account's API keys")
    .action(async () => {
      const { secrets } = await cli.client()
      if (secrets === undefined)
        throw new Error(
          "no local keys: nothing has started in this data folder, or its master key is another"
        )
      cli.print(secrets, () =>
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
  keys
    .command("list")
    .description("every key, masked")
    .action(async () => {
      const rows = await call<ReadonlyArray<KeyRow>>(await cli.client(), "GET", "/console/api/keys")
      cli.print(rows, () =>
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
      const created = await call<KeyRow & { readonly key: string }>(
        await cli.client(),
        "POST",
        "/console/api/keys",
        label === undefined ? {} : { label }
      )
      cli.print(
        created,
        () => `${created.key}\n(key id ${created.keyId}; the secret is not kept and not shown again)`
      )
    })
  keys
    .command("deactivate")
    .description("at once and for good")
    .argument("<key-id>")
    .action(async (id: string) => {
      const key = await call<KeyRow>(
        await cli.client(),
        "POST",
        `/console/api/keys/${encodeURIComponent(id)}/deactivate`,
        {}
      )
      cli.print(key, () => `${key.keyId} is deactivated`)
    })
  keys
    .command("signing")
    .description("the authorization server's signing keys")
    .action(async () => {
      const listed = await call<{ readonly keys: ReadonlyArray<SigningKeyRow> }>(
        await cli.client(),
        "GET",
        "/admin/keys"
      )
      cli.print(listed.keys, () =>
        columns([
          ["KID", "ALG", "STATUS", "CREATED"],
          ...listed.keys.map(({ kid, alg, status, created_at }) => [kid, alg, status, created_at])
        ])
      )
    })
  keys
    .command("withdraw")
    .description("a compromised signing key: its tokens stop verifying at once")
    .argument("<kid>")
    .action(async (kid: string) => {
      const withdrawn = await call<WithdrawnKeyRow>(
        await cli.client(),
        "POST",
        `/admin/keys/${encodeURIComponent(kid)}/withdraw`,
        {}
      )
      cli.print(withdrawn, () =>
        withdrawn.successor === null
          ? `${withdrawn.kid} is withdrawn`
          : `${withdrawn.kid} is withdrawn; ${withdrawn.successor} signs now`
      )
    })
}
