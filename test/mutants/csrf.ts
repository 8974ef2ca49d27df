/** Faults of forms and cookies: another site acts with the browser of somebody who is signed in. */
import type { Mutant } from "./mutant.ts"

const consoleTests = ["test/protocols/store/console/console.test.ts"]

export const csrf: ReadonlyArray<Mutant> = [
  {
    id: "same-site-is-not-same-origin",
    file: "protocols/store/console/gate.ts",
    find: `(site === undefined || site === "same-origin" || site === "none") &&`,
    replace: `site !== "cross-site" &&`,
    why: "a page of a neighbouring subdomain sends forms of the console",
    tests: ["test/protocols/store/console/gate.test.ts"]
  },
  {
    id: "origin-unchecked",
    file: "protocols/store/console/gate.ts",
    find: ` &&
    (origin === undefined || origin === \`\${request.scheme}://\${request.headers.get("host")}\`)`,
    replace: " &&\n    origin !== null",
    why: "a browser without Sec-Fetch-Site sends forms from anywhere",
    tests: ["test/protocols/store/console/gate.test.ts"]
  },
  {
    id: "form-without-token",
    file: "protocols/store/console/gate.ts",
    find: `if (!sameOrigin(visit.request) || textOf(form, "csrf") !== visit.csrf)`,
    replace: "if (!sameOrigin(visit.request))",
    why: "a form of the console needs no token",
    tests: consoleTests
  },
  {
    id: "call-without-token",
    file: "protocols/store/console/gate.ts",
    find: `(!sameOrigin(request) || request.headers.get("x-csrf-token") !== visit.csrf)`,
    replace: "!sameOrigin(request)",
    why: "a JSON call of the console needs no token",
    tests: consoleTests
  },
  {
    id: "foreign-sign-in",
    file: "protocols/store/console/sign-in.ts",
    find: "      if (!sameOrigin(request)) return loginPage(foreignForm)\n",
    replace: "",
    why: "another site signs a member of the staff in as somebody else",
    tests: consoleTests
  },
  {
    id: "console-cookie-script",
    file: "protocols/store/console/sign-in.ts",
    find: "Path=/; HttpOnly; SameSite=Lax",
    replace: "Path=/; SameSite=Lax",
    why: "a script reads the session of the console",
    tests: consoleTests
  },
  {
    id: "console-cookie-plain",
    file: "protocols/store/console/sign-in.ts",
    find: `\${request.scheme === "https" ? "; Secure" : ""}`,
    replace: "",
    why: "a browser refuses a __Host- cookie without Secure: nobody can sign in",
    tests: consoleTests
  },
  {
    id: "session-read-cross-site",
    file: "protocols/store/access/guard.ts",
    find: `    if (site !== undefined && !["same-origin", "same-site", "none"].includes(site)) return undefined\n`,
    replace: "",
    why: "another site reads the API with the cookie of the console",
    tests: ["test/protocols/store/access/access.test.ts"]
  },
  {
    id: "auth-cookie-script",
    file: "protocols/authorization/browser/sessions.ts",
    find: "Path=/; HttpOnly; SameSite=",
    replace: "Path=/; SameSite=",
    why: "a script reads the session of the authorization server",
    tests: ["test/protocols/authorization/browser/sessions.test.ts"]
  },
  {
    id: "auth-cookie-plain",
    file: "protocols/authorization/browser/sessions.ts",
    find: `\${this.authority.settings.session.secure ? "; Secure" : ""}`,
    replace: "",
    why: "the session travels over plain HTTP",
    tests: ["test/protocols/authorization/browser/sessions.test.ts"]
  },
  {
    id: "token-of-any-form",
    file: "protocols/authorization/browser/sessions.ts",
    find: "[this.csrfKey, purpose, ...bound]",
    replace: "[this.csrfKey, purpose]",
    why: "the token of one browser is good in every other",
    tests: ["test/protocols/authorization/browser/sessions.test.ts"]
  },
  {
    id: "login-without-token",
    file: "protocols/authorization/browser/login.ts",
    find: `if (nonce === undefined || !sessions.isCsrf(form.get("csrf"), "login", nonce, req, next))`,
    replace: "if (nonce === undefined)",
    why: "another site signs its victim in as the attacker",
    tests: ["test/protocols/authorization/browser/login.test.ts"]
  },
  {
    id: "consent-without-token",
    file: "protocols/authorization/browser/consent.ts",
    find: `if (!sessions.isCsrf(presented, "consent", row.sessionHash ?? "", req))`,
    replace: `if (presented === "")`,
    why: "another site presses Allow",
    tests: ["test/protocols/authorization/browser/consent.test.ts"]
  },
  {
    id: "prompt-without-token",
    file: "protocols/authorization/browser/consent.ts",
    find: `    resource === undefined ||
    !sessions.isCsrf(form.get("csrf"), "prompt", signedIn.sessionHash, resource.id, clientId)
  )`,
    replace: "    resource === undefined\n  )",
    why: "another site answers the prompt of a token exchange",
    tests: ["test/protocols/authorization/browser/consent.test.ts"]
  },
  {
    id: "logout-without-token",
    file: "protocols/authorization/browser/login.ts",
    find: `  if (!sessions.isCsrf(form.get("csrf"), "logout", signedIn.sessionHash))`,
    replace: `  if (form.get("csrf") === "")`,
    why: "another site signs its visitors out",
    tests: ["test/protocols/authorization/browser/login.test.ts"]
  }
]
