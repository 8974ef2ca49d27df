/** What the log says of a fault: enough to mend it, nothing that belongs to somebody. */
import { Cause } from "effect"
import { describe, expect, it } from "vitest"
import { StorageFault } from "../../../../storage/store.ts"
import { describeFault, withoutSecrets } from "../../../../runtime/program/telemetry/fault-description.ts"

describe("the chain of causes", () => {
  it("name, message, first frames and every cause below", () => {
    const disk = new StorageFault({ reason: "io", detail: "mdb_get: MDB_CORRUPTED" })
    const row = new TypeError("the row cannot be read", { cause: disk })
    const description = describeFault(new Error("a list failed", { cause: row }))
    expect(description).toMatchObject({
      name: "Error",
      message: "a list failed",
      cause: {
        name: "TypeError",
        cause: { name: "StorageFault", details: { reason: "io", detail: "mdb_get: MDB_CORRUPTED" } }
      }
    })
    expect(description?.stack?.[0]).toMatch(/^at /)
    expect(description!.stack!.length).toBeLessThanOrEqual(6)
  })

  it("an actor's answer, a tagged value, an Effect cause, a string and several errors are all readable", () => {
    expect(describeFault({ fault: new Error("no answer within 5000 ms") })).toMatchObject({
      message: "no answer within 5000 ms"
    })
    expect(describeFault({ _tag: "NoToken", provider: "git", reason: "refused" })).toEqual({
      name: "NoToken",
      details: { provider: "git", reason: "refused" }
    })
    expect(describeFault(Cause.die(new RangeError("too far")))).toMatchObject({ name: "RangeError" })
    expect(describeFault("no recognizer is free")).toEqual({
      name: "string",
      message: "no recognizer is free"
    })
    expect(describeFault(new AggregateError([new Error("a"), new Error("b")], "both"))).toMatchObject({
      errors: [{ message: "a" }, { message: "b" }]
    })
    expect(describeFault(undefined)).toBeUndefined()
  })

  it("a circle, a depth and a hostile getter end", () => {
    const circle: Error & { cause?: unknown } = new Error("round")
    circle.cause = circle
    expect(describeFault(circle)).not.toHaveProperty("cause")
    let deep: Error = new Error("0")
    for (let i = 1; i < 50; i++) deep = new Error(String(i), { cause: deep })
    expect(JSON.stringify(describeFault(deep)).length).toBeLessThan(20_000)
    const hostile = Object.defineProperty({}, "message", {
      get: () => {
        throw new Error("no")
      }
    })
    expect(describeFault(hostile)).toEqual({ name: "unreadable" })
  })
})

describe("what is struck out", () => {
  it.each([
    ["401 with Authorization: Bearer sk-live-abcdefgh12345678", "sk-live"],
    ["bad key sk-proj-abcdefgh12345678", "abcdefgh"],
    ["token eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln refused", "eyJ"],
    ["connect to https://user:hunter2@host/path", "hunter2"],
    ["GET https://host/v1?api_key=topsecret&x=1", "topsecret"],
    ['{"password":"correct horse"}', "correct horse"],
    ["client_secret=abc123 is wrong", "abc123"],
    ["no mail for anna.smith@example.com", "anna"],
    [`Unexpected token 'D', "Dear Anna, th"... is not valid JSON`, "Dear Anna"],
    ['Expected string, got "Guten Tag, Herr Müller"', "Müller"],
    [`key ${"QUJD".repeat(12)} cannot be read`, "QUJDQUJD"]
  ])("%s", (text, secret) => {
    expect(withoutSecrets(text)).not.toContain(secret)
  })

  it("what helps is kept: paths, members, codes, trace ids", () => {
    for (const text of [
      "ENOENT: no such file or directory, open '/var/lib/troupe/blobs/0a1b2c3d-0000-4000-8000-000000000000'",
      "Cannot read properties of undefined (reading 'status')",
      "trace 0123456789abcdef0123456789abcdef",
      "connect ECONNREFUSED 127.0.0.1:9"
    ])
      expect(withoutSecrets(text)).toBe(text)
  })

  it("a message of a megabyte costs no time and no space", () => {
    expect(withoutSecrets("a".repeat(1_000_000)).length).toBeLessThanOrEqual(501)
  })
})
