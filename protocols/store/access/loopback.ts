/** Addresses and names of this very machine. */
import { BlockList, isIP } from "node:net"

export const loopbackNames: ReadonlyArray<string> = ["localhost", "127.0.0.1", "[::1]"]

const addresses = new BlockList()
addresses.addSubnet("127.0.0.0", 8, "ipv4")
addresses.addAddress("::1", "ipv6")

export const isLoopback = (address: string): boolean =>
  isIP(address) !== 0 && addresses.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")
