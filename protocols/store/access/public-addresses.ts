/** The addresses that a webhook may reach: nothing private, local, or reserved; checked again on the address
 *  that is really connected to.
 *  Source: docs/spec/store.md, section 9.1. */
import { lookup } from "node:dns"
import type { LookupFunction } from "node:net"
import { isBlockedAddress } from "../../shared/addresses.ts"

/** IPv4 embedded in IPv6 is refused whole: nothing honest resolves to it. */
export const isPublicAddress = (address: string): boolean =>
  !/^(?:::ffff:|64:ff9b:|2002:)/i.test(address) && !isBlockedAddress(address)

export class PrivateTarget extends Error {
  constructor() {
    super("the target has no public address")
    this.name = "PrivateTarget"
  }
}

/** Resolves names for a connection and hands on only what is public, so that no second answer of the name can
 *  lead elsewhere. */
export const publicLookup =
  (resolve: typeof lookup = lookup): LookupFunction =>
  (host, options, done) => {
    resolve(host, { ...options, all: true }, (cause, found) => {
      if (cause !== null) return done(cause, "", 0)
      const open = (Array.isArray(found) ? found : []).filter(({ address }) => isPublicAddress(address))
      const [first] = open
      if (first === undefined) return done(new PrivateTarget(), "", 0)
      if (options.all === true) done(null, open)
      else done(null, first.address, first.family)
    })
  }
