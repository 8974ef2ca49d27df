/** The console's page of what webhooks could not deliver.
 *  Source: docs/spec/store.md, section 9.2. */
import { Effect } from "effect"
import type { Route } from "../../../runtime/http.ts"
import type { Engine } from "../engine/engine.ts"
import type { Row } from "../engine/resource.ts"
import type { Undelivered, Webhooks } from "../calls/webhooks.ts"
import { bodyBytesMax, type Gate, type Visit } from "./gate.ts"
import { csrfField, html, page, root, seeOther, type Html } from "./page.ts"

const home = `${root}/tools/webhooks`
const undeliveredShownMax = 100

const undeliveredRow = (id: number, { atMs, delivery, why, seq }: Undelivered, csrf: string): Html =>
  html`<tr><td>${new Date(atMs).toISOString()}</td><td><code>${delivery}</code></td><td>${why}</td><td><form class="inline" method="post" action="${home}/${id}/${seq}/again">${csrfField(csrf)}<button class="plain">Send again</button></form></td></tr>`

const subscriptionCard = ({ id, values }: Row, webhooks: Webhooks, { csrf }: Visit["user"]): Html => {
  const undelivered = webhooks.undelivered(String(id))
  const rows = undelivered.slice(0, undeliveredShownMax).map((entry) => undeliveredRow(id, entry, csrf))
  return html`<section class="card" aria-labelledby="w${id}"><h2 id="w${id}">${String(values["event_type"])}</h2><dl><dt>Target</dt><dd><code>${String(values["url"])}</code></dd><dt>Waiting</dt><dd>${webhooks.waiting(String(id))}</dd><dt>Dropped</dt><dd>${webhooks.dropped(String(id))}</dd></dl>
${rows.length > 0 && html`<table><caption class="hint">Not delivered</caption><thead><tr><th scope="col">When</th><th scope="col">Delivery</th><th scope="col">Why</th><th scope="col">Action</th></tr></thead><tbody>${rows}</tbody></table>`}</section>`
}

const noSubscriptions = html`<div class="card"><p>There are no subscriptions. They are made with <code>POST /api/v1/webhooks</code>.</p></div>`

export const webhookRoutes = (gate: Gate, engine: Engine, webhooks: Webhooks): ReadonlyArray<Route> => [
  {
    method: "GET",
    path: home,
    handle: gate.page("StoreSettings", ({ user }) => {
      const cards = engine.all("webhooks").map((row) => subscriptionCard(row, webhooks, user))
      return page(
        { title: "Webhooks", crumbs: ["Tools", "Webhooks"], current: "webhooks", user },
        html`<h1>Webhooks</h1>`,
        ...(cards.length === 0 ? [noSubscriptions] : cards)
      )
    })
  },
  {
    method: "POST",
    path: `${home}/:id/:seq/again`,
    body: { as: "buffer", bytesMax: bodyBytesMax },
    handle: gate.form("StoreSettings", ({ request: { params } }) =>
      Effect.as(webhooks.resend(params["id"]!, Number(params["seq"])), seeOther(home))
    )
  }
]
