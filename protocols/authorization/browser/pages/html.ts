/** The frame of all pages: every value is escaped by construction, the one style sheet is allowed by its
 *  hash, and there is no script and nothing from another origin.
 *  Source: docs/spec/authorization.md, section 7.8. */
import { createHash } from "node:crypto"
import type { Response } from "../../../../runtime/http.ts"

/** Text that is already HTML and is not escaped again. */
export class Html {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Part = string | number | Html | undefined | ReadonlyArray<Html>

const escapes: Record<string, string> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

/** Escapes text for HTML, and replaces characters that change text direction by U+FFFD, so that a name cannot
 *  disguise itself. */
const escaped = (text: string): string =>
  text
    .replace(/[&<>"']/g, (sign) => escapes[sign]!)
    .replace(/[\u202a-\u202e\u2066-\u2069\u200e\u200f]/g, "\ufffd")

const joined = (part: Part): string => {
  if (part === undefined) return ""
  if (part instanceof Html) return part.text
  return Array.isArray(part) ? part.map(({ text }) => text).join("") : escaped(String(part))
}

export const html = (strings: TemplateStringsArray, ...parts: ReadonlyArray<Part>): Html =>
  new Html(
    strings.reduce((text, string, at) => text + string + (at < parts.length ? joined(parts[at]) : ""), "")
  )

const style = `
:root { color-scheme: light dark; --ink: #1c2127; --soft: #5b6672; --line: #c9d1d9; --paper: #ffffff; --back: #f2f4f7; --act: #1d4ed8; --on: #ffffff; --warn: #9a3412; --warnback: #fff3e8 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --soft: #a3adb8; --line: #3a434d; --paper: #1a1f25; --back: #101418; --act: #7aa2ff; --on: #0d1117; --warn: #ffb380; --warnback: #33210f } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: flex; align-items: center; justify-content: center; padding: 1rem; background: var(--back); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 26rem; padding: 1.75rem; background: var(--paper); border: 1px solid var(--line); border-radius: .75rem }
h1 { margin: 0 0 .75rem; font-size: 1.35rem; line-height: 1.25; overflow-wrap: anywhere }
h2 { margin: 1.25rem 0 .25rem; font-size: 1rem }
p, ul, dl { margin: .5rem 0 }
label { display: block; margin-top: .9rem; font-weight: 600 }
input { width: 100%; margin-top: .25rem; padding: .6rem .7rem; font: inherit; color: inherit; background: transparent; border: 1px solid var(--soft); border-radius: .4rem }
button, .button { display: block; width: 100%; margin-top: .9rem; padding: .65rem 1rem; font: inherit; font-weight: 600; text-align: center; text-decoration: none; cursor: pointer; color: var(--on); background: var(--act); border: 1px solid var(--act); border-radius: .4rem }
.plain { color: var(--ink); background: transparent; border-color: var(--soft) }
:focus-visible { outline: 3px solid var(--act); outline-offset: 2px }
.soft { color: var(--soft); font-size: .9rem }
.fault, .warn { padding: .6rem .75rem; border-left: 4px solid var(--warn); background: var(--warnback); color: var(--warn) }
.fault::first-letter { text-transform: uppercase }
.host { padding: .6rem .75rem; border: 1px solid var(--line); border-radius: .4rem; font-weight: 600; overflow-wrap: anywhere }
li { overflow-wrap: anywhere } ul { padding-left: 1.2rem }
dt { color: var(--soft); font-size: .9rem } dd { margin: 0 0 .5rem; overflow-wrap: anywhere }
`

const styleHash = createHash("sha256").update(style).digest("base64")

export interface PageOptions {
  readonly status?: number
  /** Other origins to which a form's chain of redirects may lead. */
  readonly formTargets?: ReadonlyArray<string>
  readonly headers?: ReadonlyArray<readonly [string, string]>
}

export const page = (
  title: string,
  body: Html,
  { status = 200, formTargets = [], headers = [] }: PageOptions = {}
): Response => ({
  status,
  headers: [
    ["Content-Type", "text/html; charset=utf-8"],
    ["Cache-Control", "no-store"],
    ["X-Frame-Options", "DENY"],
    ["Cross-Origin-Opener-Policy", "same-origin"],
    ["Permissions-Policy", "publickey-credentials-get=(), camera=(), microphone=(), geolocation=()"],
    [
      "Content-Security-Policy",
      `default-src 'none'; style-src 'sha256-${styleHash}'; img-src 'self' data:; form-action ${[...new Set(["'self'", ...formTargets])].join(" ")}; frame-ancestors 'none'; base-uri 'none'`
    ],
    ...headers
  ],
  body: html`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex"><title>${title}</title><style>${new Html(style)}</style></head>
<body><main>${body}</main></body></html>
`.text
})
