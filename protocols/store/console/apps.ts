/** Tools > Apps & Addons > API Apps & Integrations: the pages that create apps and their tokens, and the
 *  JSON calls beneath them. Guarantee: a secret appears only on the page that answers its creation.
 *  Source: docs/spec/store.md, sections 3.3, 3.7. */
import { Effect } from "effect"
import type { Response, Route } from "../../../runtime/http.ts"
import type { Form } from "../../shared/form.ts"
import { scopes, type Scope } from "../access/scopes.ts"
import type { App, AppRegistry } from "../access/apps.ts"
import { promised, ruled } from "../later.ts"
import { notFound, type Refusal, wordingOf } from "../problems.ts"
import { bodyBytesMax, textOf, textsOf, type Gate, type Visit } from "./gate.ts"
import { choice, csrfField, html, input, page, root, seeOther, type Html } from "./page.ts"

const home = `${root}/tools/apps`
const crumbs = ["Tools", "Apps & Addons", "API Apps & Integrations"]
const lines = (text: string): ReadonlyArray<string> => text.split(/\s+/).filter((line) => line !== "")
const day = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace("T", " ")

const scopeChoices = (held: ReadonlyArray<string>, without: ReadonlyArray<Scope> = []): Html =>
  html`<fieldset><legend>Scopes</legend>${Object.entries(scopes)
    .filter(([scope]) => !without.includes(scope as Scope))
    .map(([scope, about]) =>
      choice("checkbox", "scopes", scope, scope, held.includes(scope), about)
    )}</fieldset>`

const appFields = (
  app: Partial<App>
): Html => html`${input("name", "Name", app.name ?? "", { required: true })}
<fieldset><legend>Kind</legend>${choice("radio", "kind", "custom", "Custom", app.kind !== "installed", "made by hand for this store")}${choice("radio", "kind", "installed", "Installed", app.kind === "installed", "from the marketplace or a third party")}</fieldset>
${scopeChoices(app.scopes ?? [])}
<label for="redirect_uris">Redirect addresses</label><p class="hint" id="redirect-hint">One a line; https, or http on this machine. Compared exactly.</p><textarea id="redirect_uris" name="redirect_uris" rows="3" aria-describedby="redirect-hint">${(app.redirectUris ?? []).join("\n")}</textarea>
<label for="allowed_origins">Origins of browsers that may call</label><p class="hint" id="origins-hint">One a line, as https://page.example.</p><textarea id="allowed_origins" name="allowed_origins" rows="2" aria-describedby="origins-hint">${(app.allowedOrigins ?? []).join("\n")}</textarea>
${choice("checkbox", "run_without_user", "yes", "Runs without a user", app.runWithoutUser ?? false)}`

const inputOf = (form: Form): Record<string, unknown> => ({
  name: textOf(form, "name"),
  kind: textOf(form, "kind"),
  scopes: textsOf(form, "scopes"),
  redirect_uris: lines(textOf(form, "redirect_uris")),
  allowed_origins: lines(textOf(form, "allowed_origins")),
  run_without_user: textOf(form, "run_without_user") === "yes"
})

const draftOf = (form: Form): Partial<App> => ({
  name: textOf(form, "name"),
  kind: textOf(form, "kind") === "installed" ? "installed" : "custom",
  scopes: textsOf(form, "scopes"),
  redirectUris: lines(textOf(form, "redirect_uris")),
  allowedOrigins: lines(textOf(form, "allowed_origins")),
  runWithoutUser: textOf(form, "run_without_user") === "yes"
})

const listPage =
  (apps: AppRegistry) =>
  ({ user }: Visit): Response =>
    page(
      { title: "API Apps & Integrations", crumbs, current: "apps", user },
      html`<div class="row"><h1>API Apps &amp; Integrations</h1><a class="button" href="${home}/new">New</a></div><div class="card">${
        apps.list().length === 0
          ? html`<p>There are no apps yet.</p>`
          : html`<table><caption class="skip">Apps</caption><thead><tr><th scope="col">Name</th><th scope="col">App ID</th><th scope="col">Kind</th><th scope="col">Scopes</th><th scope="col">Made</th></tr></thead><tbody>${apps
              .list()
              .map(
                (app) =>
                  html`<tr><td><a href="${home}/${app.appId}">${app.name}</a></td><td><code>${app.appId}</code></td><td>${app.kind}${app.suspended && " (suspended)"}</td><td>${app.scopes.join(", ")}</td><td>${day(app.createdMs)}</td></tr>`
              )}</tbody></table>`
      }</div>`
    )

const newPage = ({ user }: Visit, draft: Partial<App> = {}, problem?: string): Response =>
  page(
    {
      title: "New app",
      crumbs: [...crumbs, "New"],
      current: "apps",
      user,
      problem,
      status: problem === undefined ? 200 : 400
    },
    html`<h1>New app</h1><form class="card" method="post" action="${home}/new">${csrfField(user.csrf)}${appFields(draft)}<p><button>Save</button> <a href="${home}">Cancel</a></p></form>`
  )

/** Secrets that a page displays only once. */
interface Secrets {
  readonly title: string
  readonly rows: ReadonlyArray<readonly [name: string, value: string]>
}

const appPage = (apps: AppRegistry, { user }: Visit, appId: string, secrets?: Secrets): Response => {
  const app = apps.get(appId)
  if (app === undefined) throw notFound("There is no such app.")
  const tokens = apps.listTokens(appId)
  const at = `${home}/${appId}`
  return page(
    { title: app.name, crumbs: [...crumbs, app.name], current: "apps", user },
    ...(secrets === undefined
      ? []
      : [
          html`<div class="card notice" role="status"><h2>${secrets.title}</h2><p>Copy what is secret now: it is not shown again.</p><dl>${secrets.rows.map(([name, value]) => html`<dt>${name}</dt><dd><code>${value}</code></dd>`)}</dl></div>`
        ]),
    html`<h1>${app.name}</h1><div class="card"><dl><dt>App ID</dt><dd><code>${app.appId}</code></dd><dt>Made</dt><dd>${day(app.createdMs)}</dd></dl>
<form method="post" action="${at}">${csrfField(user.csrf)}${appFields(app)}${choice("checkbox", "suspended", "yes", "Suspended", app.suspended, "its tokens are refused")}<p><button>Save</button></p></form></div>`,
    html`<div class="card"><h2>Admin tokens</h2><p>They never expire and never see encrypted data.</p>${
      tokens.length > 0 &&
      html`<table><thead><tr><th scope="col">Label</th><th scope="col">Scopes</th><th scope="col">Made</th><th scope="col">Action</th></tr></thead><tbody>${tokens.map(
        (token) =>
          html`<tr><td>${token.label === "" ? `Token ${token.id}` : token.label}</td><td>${token.scopes.join(", ")}</td><td>${day(token.createdMs)}</td><td><form class="inline" method="post" action="${at}/tokens/${token.id}/revoke">${csrfField(user.csrf)}<button class="danger">Revoke<span class="skip"> ${token.label === "" ? `token ${token.id}` : token.label}</span></button></form></td></tr>`
      )}</tbody></table>`
    }
<form method="post" action="${at}/tokens">${csrfField(user.csrf)}${input("label", "Label of a new token", "")}${scopeChoices(
      app.scopes.filter((scope) => scope !== "decrypt"),
      ["decrypt"]
    )}<p><button>Create token</button></p></form></div>`,
    html`<div class="card row"><form method="post" action="${at}/rotate_secret">${csrfField(user.csrf)}<button class="plain">New App Secret</button></form><form method="post" action="${at}/delete">${csrfField(user.csrf)}<button class="danger">Delete this app</button></form></div>`
  )
}

const id = ({ request }: Visit): string => request.params["id"]!

export const appRoutes = (gate: Gate, apps: AppRegistry): ReadonlyArray<Route> => {
  const body = { as: "buffer", bytesMax: bodyBytesMax } as const
  const area = "StoreSettings" as const
  const secretsPage = (visit: Visit, secrets: Secrets): Effect.Effect<Response, Refusal> =>
    ruled(() => appPage(apps, visit, id(visit), secrets))
  const post = (path: string, handle: Parameters<Gate["form"]>[1]): Route => ({
    method: "POST",
    path: `${home}${path}`,
    body,
    handle: gate.form(area, handle)
  })
  return [
    { method: "GET", path: home, handle: gate.page(area, listPage(apps)) },
    { method: "GET", path: `${home}/new`, handle: gate.page(area, (visit) => newPage(visit)) },
    post("/new", (visit, form) =>
      Effect.match(
        promised(() => apps.create(inputOf(form))),
        {
          onSuccess: ({ app, secret }) =>
            appPage(apps, visit, app.appId, {
              title: "The app is saved",
              rows: [
                ["App ID", app.appId],
                ["App Secret", secret]
              ]
            }),
          onFailure: ({ problem }) => newPage(visit, draftOf(form), wordingOf(problem).details)
        }
      )
    ),
    {
      method: "GET",
      path: `${home}/:id`,
      handle: gate.page(area, (visit) => appPage(apps, visit, id(visit)))
    },
    post("/:id", (visit, form) => {
      const changes = { ...inputOf(form), suspended: textOf(form, "suspended") === "yes" }
      return Effect.as(
        promised(() => apps.change(id(visit), changes)),
        seeOther(`${home}/${id(visit)}`)
      )
    }),
    post("/:id/rotate_secret", (visit) =>
      Effect.flatMap(
        promised(() => apps.rotate(id(visit))),
        (secret) =>
          secretsPage(visit, {
            title: "The App Secret is new; the old one is dead",
            rows: [
              ["App ID", id(visit)],
              ["App Secret", secret]
            ]
          })
      )
    ),
    post("/:id/delete", (visit) =>
      Effect.as(
        promised(() => apps.remove(id(visit))),
        seeOther(home)
      )
    ),
    post("/:id/tokens", (visit, form) => {
      const input = { scopes: textsOf(form, "scopes"), label: textOf(form, "label") }
      return Effect.flatMap(
        promised(() => apps.createToken(id(visit), input)),
        ({ token }) => secretsPage(visit, { title: "The token is made", rows: [["Token", token]] })
      )
    }),
    post("/:id/tokens/:token/revoke", (visit) =>
      Effect.as(
        promised(() => apps.revokeToken(id(visit), Number(visit.request.params["token"]))),
        seeOther(`${home}/${id(visit)}`)
      )
    )
  ]
}
