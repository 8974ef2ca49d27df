/** Decides which network addresses the server must not connect to on behalf of a stranger, and how addresses
 *  are grouped for limits. Pure.
 *  Source: docs/spec/authorization.md, sections 11.2 and 3.5; docs/spec/store.md, section 9.1;
 *  docs/spec/chat.md, section 11.7; IANA special-purpose address registries. */
import { BlockList, isIPv4, isIPv6 } from "node:net"

const blockedV4 = new BlockList()
const blockedV6 = new BlockList()

for (const range of [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4"
]) {
  const [net, prefix] = range.split("/")
  blockedV4.addSubnet(net!, Number(prefix), "ipv4")
}

for (const range of [
  "::/96",
  "64:ff9b:1::/48",
  "100::/64",
  "2001::/23",
  "2001:db8::/32",
  "fc00::/7",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8"
]) {
  const [net, prefix] = range.split("/")
  blockedV6.addSubnet(net!, Number(prefix), "ipv6")
}

/** Returns whether a host name or address is this machine's own, with or without the brackets of a URL. */
export const isLoopbackHost = (host: string): boolean =>
  host === "localhost" || host === "[::1]" || host === "::1" || (isIPv4(host) && host.startsWith("127."))

const withoutZone = (address: string): string => address.split("%", 1)[0]!

/** Returns the eight groups of an IPv6 address. The URL parser normalizes its many spellings. */
const groupsOf = (address: string): ReadonlyArray<number> => {
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::")
  const read = (part: string): ReadonlyArray<number> =>
    part === "" ? [] : part.split(":").map((group) => parseInt(group, 16))
  if (tail === undefined) return read(head)
  const before = read(head)
  const after = read(tail)
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

const dotted = (high: number, low: number): string => `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`

/** Returns the IPv4 address that an IPv6 address embeds: mapped, NAT64, 6to4. */
const embedded = (groups: ReadonlyArray<number>): string | undefined => {
  const [a, b, c, d, e, f, g, h] = groups as [number, number, number, number, number, number, number, number]
  if ((a | b | c | d | e) === 0 && f === 0xffff) return dotted(g, h)
  if (a === 0x64 && b === 0xff9b && (c | d | e | f) === 0) return dotted(g, h)
  return a === 0x2002 ? dotted(b, c) : undefined
}

/** Returns whether an address must not be connected to; true also for a text that is no address. */
export const isBlockedAddress = (address: string): boolean => {
  const bare = withoutZone(address)
  if (isIPv4(bare)) return blockedV4.check(bare, "ipv4")
  if (!isIPv6(bare)) return true
  const inside = embedded(groupsOf(bare))
  return inside === undefined ? blockedV6.check(bare, "ipv6") : blockedV4.check(inside, "ipv4")
}

/** Returns the host of a URL when it is an address; the URL parser has already converted octal, hexadecimal
 *  and one-number forms. */
export const literalAddress = (hostname: string): string | undefined => {
  if (hostname.startsWith("[")) return hostname.slice(1, -1)
  return isIPv4(hostname) ? hostname : undefined
}

/** Groups addresses into callers for limits: an IPv4 address, or an IPv6 /64. */
export const sourceOf = (address: string): string => {
  if (!address.includes(":")) return address
  const bare = withoutZone(address)
  if (!isIPv6(bare)) return bare
  const groups = groupsOf(bare)
  return (
    embedded(groups) ??
    `${groups
      .slice(0, 4)
      .map((group) => group.toString(16))
      .join(":")}::/64`
  )
}
