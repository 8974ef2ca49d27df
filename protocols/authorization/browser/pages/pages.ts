/** The pages: login, consent, connections and errors. They are plain forms with labels and one heading each; what
 *  they lead to lies beside them, wherever the issuer's path puts them.
 *  Source: docs/spec/authorization.md, sections 7.5, 7.6, 7.8, 12.4 and 12.6. */
import type { Response } from "../../../../runtime/http.ts"
import { type Problem, requestIdOf, withCause, wordingOf } from "../../problems.ts"
import { html, page, type PageOptions } from "./html.ts"

export const errorPage = (problem: Problem, traceId: string, options: PageOptions = {}): Response => {
  const { description, error, status } = wordingOf(problem)
  const response = page(
    "This did not work",
    html`<h1>This did not work</h1><p class="fault">${description}</p>
<p>Return to the application and try again.</p><dl class="soft"><dt>Error</dt><dd>${error}</dd><dt>Request</dt><dd>${requestIdOf(traceId)}</dd></dl>`,
    { status, ...options }
  )
  return withCause(problem, response)
}

export interface LoginView {
  readonly csrf: string
  readonly req: string
  readonly next: string
  readonly email: string
  readonly fault: string | undefined
  readonly clientName: string | undefined
  readonly localLogin: boolean
  readonly federation: string | undefined
}

export const loginPage = (
  { csrf, req, next, email, fault, clientName, localLogin, federation }: LoginView,
  options: PageOptions = {}
): Response =>
  page(
    "Sign in",
    html`<h1>Sign in</h1>${clientName === undefined ? html`` : html`<p class="soft">to go on to ${clientName}</p>`}
${fault === undefined ? html`` : html`<p class="fault" role="alert">${fault}</p>`}
${
  localLogin
    ? html`<form method="post" action="login">
<input type="hidden" name="csrf" value="${csrf}"><input type="hidden" name="req" value="${req}"><input type="hidden" name="next" value="${next}">
<label for="email">E-mail</label><input id="email" name="email" type="email" autocomplete="username" required value="${email}">
<label for="password">Password</label><input id="password" name="password" type="password" autocomplete="current-password" required>
<button type="submit">Sign in</button></form>`
    : html``
}
${federation === undefined ? html`` : html`<form method="get" action="oidc/start"><input type="hidden" name="req" value="${req}"><button class="plain" type="submit">Sign in with ${federation}</button></form>`}`,
    options
  )

export interface ConsentView {
  readonly action: string
  readonly csrf: string
  readonly hidden: Readonly<Record<string, string>>
  readonly clientName: string
  readonly selfDeclared: boolean
  readonly clientHost: string | undefined
  /** Host that receives the answer; undefined when the answer leads to no other site. */
  readonly destination: string | undefined
  readonly loopback: boolean
  readonly email: string
  readonly resourceName: string | undefined
  readonly resourceUri: string
  readonly scopes: ReadonlyArray<{
    readonly name: string
    readonly description: string
    readonly granted: boolean
  }>
}

export const consentPage = (view: ConsentView, options: PageOptions = {}): Response =>
  page(
    "Allow access?",
    html`<h1>Allow ${view.clientName} access?</h1>
${view.selfDeclared ? html`<p class="soft">The name is self-declared${view.clientHost === undefined ? "" : ` by ${view.clientHost}`}.</p>` : html``}
<p>You are signed in as <strong>${view.email}</strong>.</p>
${view.resourceName === undefined ? html`` : html`<h2>Where</h2><p>${view.resourceName}${view.resourceUri === "" ? html`` : html`<br><span class="soft">${view.resourceUri}</span>`}</p>`}
<h2>It asks to</h2><ul>${view.scopes.map(({ name, description, granted }) => html`<li>${description === "" ? name : description}${description === "" ? html`` : html` <span class="soft">(${name})</span>`}${granted ? html` <span class="soft">already allowed</span>` : html``}</li>`)}</ul>
${view.destination === undefined ? html`` : html`<h2>The answer goes to</h2><p class="host">${view.destination}</p>${view.loopback ? html`<p class="warn">This is a program on this device. Any program here can claim to be ${view.clientName}: allow it only if you have just started it.</p>` : html``}`}
<form method="post" action="${view.action}"><input type="hidden" name="csrf" value="${view.csrf}">${Object.entries(view.hidden).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)}
<button type="submit" name="decision" value="allow">Allow</button><button class="plain" type="submit" name="decision" value="deny">Deny</button></form>`,
    options
  )

export const donePage = (words: string): Response =>
  page(
    "Done",
    html`<h1>Done</h1><p>${words}</p><p>You can close this page and return to the application.</p>`
  )

export interface ConnectionView {
  readonly provider: string
  readonly displayName: string
  readonly scopes: ReadonlyArray<string>
  readonly connectedMs: number
}

/** `csrfToken` is for `DELETE /connections/{provider}`, which the operator's own scripts may call. */
export const connectionsPage = (
  connections: ReadonlyArray<ConnectionView>,
  csrfToken: string,
  logoutCsrf: string,
  email: string
): Response =>
  page(
    "Connections",
    html`<h1>Connections</h1><p class="soft">Signed in as ${email}.</p>
${connections.length === 0 ? html`<p>Nothing is connected.</p>` : html`<ul data-csrf-token="${csrfToken}">${connections.map(({ displayName, scopes, connectedMs }) => html`<li>${displayName} <span class="soft">${scopes.join(", ")}, since ${new Date(connectedMs).toISOString().slice(0, 10)}</span></li>`)}</ul>`}
<form method="post" action="logout"><input type="hidden" name="csrf" value="${logoutCsrf}"><button class="plain" type="submit">Sign out</button></form>`
  )
