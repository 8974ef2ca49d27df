/** Pages of the store's console: escaped by construction, without a script, with one stylesheet of our own,
 *  usable by keyboard and screen reader.
 *  Source: docs/spec/store.md, section 3.7; WCAG 2.2 for labels, landmarks and contrast. */
import type { Response, Header } from "../../../runtime/http.ts"
import { noStore } from "../../shared/headers.ts"

/** Text that is already HTML; all other text is escaped. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = Html | string | number | undefined | false | ReadonlyArray<Html>

const escapes: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

export const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => escapes[char]!)

const rendered = (part: Part): string => {
  if (part instanceof Html) return part.text
  if (part === undefined || part === false) return ""
  return typeof part === "object" ? part.map(({ text }) => text).join("") : escaped(String(part))
}

export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html =>
  new Html(
    strings.reduce((whole, text, at) => whole + text + (at < parts.length ? rendered(parts[at]) : ""), "")
  )

export const root = "/store/admin"

export const style = `
:root{color-scheme:light dark;--ink:#1c2430;--soft:#55606e;--line:#d5dae1;--paper:#fff;--wash:#f4f6f8;--accent:#0b5cad;--bad:#a4262c;--good:#1b6e3c}
@media(prefers-color-scheme:dark){:root{--ink:#e8ecf1;--soft:#a9b4c2;--line:#3a4450;--paper:#171c23;--wash:#1f262f;--accent:#7db8f5;--bad:#ff9a9e;--good:#86d9a4}}
*{box-sizing:border-box}body{margin:0;font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--wash)}
a{color:var(--accent)}header{display:flex;gap:1.5rem;align-items:center;flex-wrap:wrap;padding:.75rem 1.5rem;background:var(--paper);border-bottom:1px solid var(--line)}
header strong{font-size:1.05rem}nav ul{display:flex;gap:1.25rem;list-style:none;margin:0;padding:0}nav a[aria-current]{font-weight:600;text-decoration:none;color:var(--ink)}
header form{margin-left:auto}main{max-width:66rem;margin:1.5rem auto;padding:0 1.5rem}.crumbs ol{display:flex;gap:.5rem;list-style:none;padding:0;margin:0 0 .25rem;color:var(--soft);font-size:.9rem}
.crumbs li+li::before{content:"\\203a";margin-right:.5rem}h1{font-size:1.6rem;margin:.25rem 0 1rem}h2{font-size:1.15rem;margin:2rem 0 .75rem}
.card{background:var(--paper);border:1px solid var(--line);border-radius:.5rem;padding:1.25rem;margin-bottom:1.25rem;overflow-x:auto}
table{width:100%;border-collapse:collapse}th,td{text-align:left;padding:.5rem .75rem;border-bottom:1px solid var(--line);vertical-align:top}th{font-size:.85rem;color:var(--soft)}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
label,legend{display:block;font-weight:600;margin:.9rem 0 .25rem}fieldset{border:1px solid var(--line);border-radius:.4rem;margin:1rem 0;padding:.25rem 1rem 1rem}.choice{display:flex;gap:.5rem;align-items:baseline;font-weight:400;margin:.35rem 0}.choice span{color:var(--soft)}
input[type=text],input[type=password],input[type=search],input[type=number],textarea,select{width:100%;max-width:34rem;padding:.5rem .6rem;border:1px solid var(--soft);border-radius:.35rem;font:inherit;color:inherit;background:var(--paper)}
.hint{color:var(--soft);font-size:.9rem;margin:.2rem 0}button,.button{display:inline-block;padding:.5rem 1rem;border:1px solid var(--accent);border-radius:.35rem;background:var(--accent);color:var(--paper);font:inherit;font-weight:600;text-decoration:none;cursor:pointer}
button.plain{background:none;color:var(--accent)}button.danger{background:none;border-color:var(--bad);color:var(--bad)}.row{display:flex;gap:.75rem;align-items:center;flex-wrap:wrap;justify-content:space-between}.row h1,.row h2{margin:0}main>.row{margin-bottom:1rem}.card>h2:first-child{margin-top:0}
:focus-visible{outline:3px solid var(--accent);outline-offset:2px}.notice{border-left:4px solid var(--good)}.problem{border-left:4px solid var(--bad)}code{font:.95rem/1.4 ui-monospace,monospace;overflow-wrap:anywhere}dl{display:grid;grid-template-columns:max-content 1fr;gap:.4rem 1.25rem;margin:0}dt{font-weight:600}dd{margin:0}
.skip{position:absolute;left:-999rem}.skip:focus{left:1rem;top:1rem}form.inline{display:inline}`.trim()

export interface PageOptions {
  readonly title: string
  /** Names of the pages that lead to this page. */
  readonly crumbs?: ReadonlyArray<string>
  readonly current?: "apps" | "products" | "webhooks"
  readonly user?: { readonly name: string; readonly csrf: string }
  readonly problem?: string | undefined
  readonly status?: number
}

const links = [
  ["apps", `${root}/tools/apps`, "API apps"],
  ["products", `${root}/products`, "Products"],
  ["webhooks", `${root}/tools/webhooks`, "Webhooks"]
] as const

const pageHeaders: ReadonlyArray<Header> = [
  [
    "Content-Security-Policy",
    "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
  ],
  ["X-Content-Type-Options", "nosniff"],
  ["Referrer-Policy", "same-origin"],
  ["Cross-Origin-Opener-Policy", "same-origin"],
  ["X-Frame-Options", "DENY"],
  noStore
]

export const page = (
  { title, crumbs = [], current, user, problem, status = 200 }: PageOptions,
  ...content: ReadonlyArray<Html>
): Response => ({
  status,
  headers: [["Content-Type", "text/html; charset=utf-8"], ...pageHeaders],
  body: `<!doctype html>${
    html`<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>${title} · Store console</title><link rel="stylesheet" href="${root}/style.css"></head>
<body><a class="skip" href="#main">Skip to content</a><header><strong>Store console</strong>${
      user !== undefined &&
      html`<nav aria-label="Main"><ul>${links.map(([name, href, text]) => html`<li><a href="${href}"${name === current && new Html(' aria-current="page"')}>${text}</a></li>`)}</ul></nav>
<form method="post" action="${root}/logout">${csrfField(user.csrf)}<span>${user.name}</span> <button class="plain">Sign out</button></form>`
    }</header>
<main id="main">${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb"><ol>${crumbs.map((crumb) => html`<li>${crumb}</li>`)}</ol></nav>`}
${problem !== undefined && html`<div class="card problem" role="alert">${problem}</div>`}${content}</main></body></html>`
      .text
  }`
})

export const csrfField = (csrf: string): Html => html`<input type="hidden" name="csrf" value="${csrf}">`

export const stylesheet = (): Response => ({
  status: 200,
  headers: [
    ["Content-Type", "text/css; charset=utf-8"],
    ["X-Content-Type-Options", "nosniff"],
    ["Cache-Control", "private, max-age=300"]
  ],
  body: style
})

/** Answers a POST with a redirect, so that going back sends nothing twice. */
export const seeOther = (path: string, ...headers: ReadonlyArray<Header>): Response => ({
  status: 303,
  headers: [["Location", path], ...pageHeaders, ...headers]
})

export const input = (
  name: string,
  label: string,
  value: string,
  more: {
    readonly type?: string
    readonly required?: boolean
    readonly hint?: string
    readonly autocomplete?: string
    readonly invalid?: boolean
  } = {}
): Html =>
  html`<label for="${name}">${label}</label>${more.hint !== undefined && html`<p class="hint" id="${name}-hint">${more.hint}</p>`}<input id="${name}" name="${name}" type="${more.type ?? "text"}" value="${value}"${more.type === "number" && new Html(' step="any"')}${more.required === true && new Html(" required")}${more.hint !== undefined && html` aria-describedby="${name}-hint"`} autocomplete="${more.autocomplete ?? "off"}">`

export const choice = (
  type: "checkbox" | "radio",
  name: string,
  value: string,
  label: string,
  checked: boolean,
  about?: string
): Html =>
  html`<label class="choice"><input type="${type}" name="${name}" value="${value}"${checked && new Html(" checked")}>${label}${about !== undefined && html` <span>${about}</span>`}</label>`
