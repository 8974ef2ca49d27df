/** Decides which addresses a webhook may reach: none that is private, local or reserved. The address that is
 *  really connected to is checked again.
 *  Source: docs/spec/store.md, section 9.1. */
import { lookup } from "node:dns"
import type { LookupFunction } from "node:net"
import { isBlockedAddress } from "../../shared/addresses.ts"

/** Returns whether an address is public. IPv6 addresses with an embedded IPv4 address are refused, because
 *  nothing legitimate resolves to them. */
export const isPublicAddress = (address: string): boolean =>
  !/^(?:::ffff:|64:ff9b:|2002:)/i.test(address) && !isBlockedAddress(address)

export class PrivateTarget extends Error {
  constructor() {
    super("the target has no public address")
    this.name = "PrivateTarget"
  }
}

/** Resolves names for a connection and returns only public addresses, so that a second DNS answer cannot
 *  redirect it. */
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
