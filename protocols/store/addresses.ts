/** Which addresses a webhook may reach: nothing private, local, or reserved; checked again on the address that is really connected to.
 *  Source: store section 9.1; IANA special-purpose address registries. */
import { lookup } from "node:dns"
import { BlockList, isIP, type LookupFunction } from "node:net"

const special = new BlockList()
for (const [address, bits] of [["0.0.0.0", 8], ["10.0.0.0", 8], ["100.64.0.0", 10], ["127.0.0.0", 8], ["169.254.0.0", 16], ["172.16.0.0", 12], ["192.0.0.0", 24], ["192.0.2.0", 24], ["192.88.99.0", 24],
  ["192.168.0.0", 16], ["198.18.0.0", 15], ["198.51.100.0", 24], ["203.0.113.0", 24], ["224.0.0.0", 3]] as const) special.addSubnet(address, bits, "ipv4")
for (const [address, bits] of [["::", 96], ["64:ff9b::", 96], ["64:ff9b:1::", 48], ["100::", 64], ["2001::", 23], ["2001:db8::", 32], ["2002::", 16], ["fc00::", 7], ["fe80::", 10], ["fec0::", 10], ["ff00::", 8]] as const) special.addSubnet(address, bits, "ipv6")

export const isPublicAddress = (address: string): boolean => {
  const family = isIP(address)
  // IPv4 in IPv6's clothes is refused whole: nothing honest resolves to it.
  return family !== 0 && !/^::ffff:/i.test(address) && !special.check(address, family === 6 ? "ipv6" : "ipv4")
}
export class PrivateTarget extends Error { constructor() { super("the target has no public address"); this.name = "PrivateTarget" } }

/** Resolves names for a connection and hands on only what is public, so that no second answer of the name can lead elsewhere. */
export const publicLookup = (resolve: typeof lookup = lookup): LookupFunction => (host, options, done) => {
  resolve(host, { ...options, all: true }, (cause, found) => {
    if (cause !== null) return done(cause, "", 0)
    const open = (Array.isArray(found) ? found : []).filter(({ address }) => isPublicAddress(address))
    const [first] = open
    if (first === undefined) return done(new PrivateTarget(), "", 0)
    if (options.all === true) done(null, open)
    else done(null, first.address, first.family)
  })
}
