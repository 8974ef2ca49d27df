/** Sessions, their cookies and the tokens of their forms. Source: docs/spec/authorization.md, section 7.5. */
import { expect, it } from "vitest"
import { BrowserSessions } from "../../../../protocols/authorization/browser/sessions.ts"
import { Users, type User } from "../../../../protocols/authorization/records.ts"
import type { SettingsInput } from "../../../../protocols/authorization/settings.ts"
import { requestOf, World } from "../upstream/outside.ts"

const user: User = {
  id: "u1",
  email: "u1@example.com",
  name: "User",
  role: "user",
  passwordHash: null,
  federated: null,
  status: "active",
  epoch: 0,
  lastLoginMs: null,
  createdMs: 0,
  updatedMs: 0
}

type SessionSettings = NonNullable<SettingsInput["session"]>

const opened = async (session: SessionSettings = {}) => {
  const world = new World({ session: { secure: true, sameSite: "lax", ...session } })
  const sessions = new BrowserSessions(world.authority)
  await world.authority.books.write([Users.put([user.id], user)])
  return { world, sessions }
}

const signedIn = async (session: SessionSettings = {}) => {
  const { world, sessions } = await opened(session)
  const { cookie, rows } = sessions.begin(user, "pwd", requestOf({}))
  await world.authority.books.write(rows)
  const request = requestOf({ headers: { cookie: cookie[1].split(";")[0]! } })
  return { world, sessions, cookie: cookie[1], of: () => sessions.of(request) }
}

it("a cookie is __Host-, HttpOnly and Secure over HTTPS, and HttpOnly on a machine of one's own", async () => {
  const attributes = (cookie: string) =>
    cookie
      .replace(/Max-Age=\d+/, "Max-Age")
      .split("; ")
      .slice(1)
      .sort()
  const safe = await signedIn()
  expect(safe.cookie).toMatch(/^__Host-[\w-]+=[\w-]{43}; /)
  expect(attributes(safe.cookie)).toEqual(["HttpOnly", "Max-Age", "Path=/", "SameSite=Lax", "Secure"])
  const plain = await signedIn({ secure: false })
  expect(plain.cookie).not.toContain("__Host-")
  expect(attributes(plain.cookie)).toEqual(["HttpOnly", "Max-Age", "Path=/", "SameSite=Lax"])
  const { cookie } = safe.sessions.before(requestOf({}), { req: "", next: "" })
  expect(cookie[1]).toMatch(/^__Host-authserver_pre=[\w-]{43}; Path=\/; HttpOnly; SameSite=Lax; .*Secure$/)
})

it("a session is good until its end, and while its user has the epoch of its login", async () => {
  const maxAgeMs = 3_600_000
  const { world, of } = await signedIn({ maxAgeMs })
  const { books } = world.authority
  expect(of()?.user.id).toBe("u1")
  const row = books.get(Users, ["u1"])!
  await books.write([Users.put(["u1"], { ...row, epoch: 1 })])
  expect(of()).toBeUndefined()
  await books.write([Users.put(["u1"], row)])
  world.nowMs += maxAgeMs - 1
  expect(of()?.user.id).toBe("u1")
  world.nowMs += 1
  expect(of()).toBeUndefined()
})

it("the token of a form is good for its purpose, its session and what it is about, and nowhere else", async () => {
  const { sessions } = await opened()
  const token = sessions.csrf("consent", "session-1", "req-1")
  expect(sessions.isCsrf(token, "consent", "session-1", "req-1")).toBe(true)
  expect(sessions.isCsrf(undefined, "consent", "session-1", "req-1")).toBe(false)
  expect(sessions.isCsrf(token, "logout", "session-1", "req-1")).toBe(false)
  expect(sessions.isCsrf(token, "consent", "session-2", "req-1")).toBe(false)
  expect(sessions.isCsrf(token, "consent", "session-1", "req-2")).toBe(false)
  const stranger = new BrowserSessions(new World({ session: { secret: "another secret" } }).authority)
  expect(stranger.isCsrf(token, "consent", "session-1", "req-1")).toBe(false)
})
