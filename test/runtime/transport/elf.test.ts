import { readFileSync } from "node:fs"
import { join } from "node:path"
import { expect, it } from "vitest"
import { rebound, type Rebinding } from "../../../runtime/transport/elf.ts"
import { packageFolder } from "../../../runtime/transport/uws-library.ts"

const file = readFileSync(join(packageFolder(), "uws_linux_x64_115.node"))

const rebinding: Rebinding = {
  machine: 62,
  library: "libc.so.6",
  from: "GLIBC_2.38",
  to: "GLIBC_2.2.5",
  prefix: "__isoc23_",
  symbols: ["sscanf", "strtol", "strtoul"]
}

const changed = (at: number, value: number): Buffer => {
  const bytes = Buffer.from(file)
  bytes[at] = value
  return bytes
}

it("G-10: the original stays as it was, and the copy has no symbol left to bind anew", () => {
  const before = Buffer.from(file)
  const copy = rebound(file, rebinding)
  expect(file.equals(before)).toBe(true)
  expect(copy.equals(file)).toBe(false)
  expect(() => rebound(copy, rebinding)).toThrow(/^other symbols are bound to GLIBC_2\.38: $/)
})

it.each<[string, Buffer, Partial<Rebinding>, string | RegExp]>([
  ["an empty file", Buffer.alloc(0), {}, "no ELF file"],
  ["text", Buffer.from("#!/bin/sh\n".repeat(20)), {}, "no ELF file"],
  ["32 bits", changed(4, 1), {}, "no ELF file"],
  ["big endian", changed(5, 2), {}, "no ELF file"],
  ["a program", changed(16, 2), {}, "no shared object"],
  ["another machine", file, { machine: 183 }, "another machine"],
  ["another version", file, { from: "GLIBC_2.39" }, "does not need GLIBC_2.39"],
  ["another library", file, { library: "libm.so.6" }, "does not need GLIBC_2.38 of libm.so.6"],
  ["no version to bind to", file, { to: "GLIBC_2.5" }, "does not need GLIBC_2.5"],
  ["a symbol more than expected", file, { symbols: ["sscanf", "strtol"] }, "__isoc23_strtoul"],
  [
    "a symbol less than expected",
    file,
    { symbols: ["sscanf", "strtol", "strtoul", "strtoull"] },
    "other symbols"
  ],
  ["a cut file", file.subarray(0, 700_000), {}, /./]
])("G-10: refuses %s", (_, bytes, others, reason) => {
  expect(() => rebound(bytes, { ...rebinding, ...others })).toThrow(reason)
})
