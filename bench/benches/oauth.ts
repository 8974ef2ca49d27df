/** Measures token requests and introspection. The floor is uWebSockets.js, node:crypto and durable LMDB by
 *  hand, and it introspects an opaque token; the peer keeps everything in memory. */
import type { Bench } from "../rounds.ts"
import { closedLoop, serverBench, type ServerCandidate } from "./servers.ts"

interface OAuthBench {
  readonly title: string
  /** The kind of request (bench/programs/load-oauth.ts). */
  readonly mode: string
  /** The form of the access tokens that the peer issues. */
  readonly peerTokens: "jwt" | "opaque"
  readonly candidates: ReadonlyArray<ServerCandidate>
}

const oauth = ({ title, mode, peerTokens, candidates }: OAuthBench): Bench =>
  serverBench({
    title,
    program: "server-oauth",
    candidates: [
      { name: "floor", args: ["floor", "opaque"] },
      { name: "oidc-provider", args: ["oidc", peerTokens] },
      ...candidates
    ],
    load: closedLoop(title, "load-oauth", mode)
  })

const troupe: ServerCandidate = { name: "troupe", args: ["troupe"], compared: true }

const durableAndRelaxed: ReadonlyArray<ServerCandidate> = [
  { name: "troupe", args: ["troupe", "full"], compared: true },
  { name: "troupe relaxed", args: ["troupe", "relaxed"] }
]

export const oauthBenches: Record<string, Bench> = {
  "oauth-client-credentials": oauth({
    title: "client_credentials (O1)",
    mode: "client-credentials",
    peerTokens: "jwt",
    candidates: durableAndRelaxed
  }),
  "oauth-refresh": oauth({
    title: "refresh (O2)",
    mode: "refresh",
    peerTokens: "jwt",
    candidates: durableAndRelaxed
  }),
  "oauth-introspect-opaque": oauth({
    title: "introspection, refresh token (O3)",
    mode: "introspect-opaque",
    peerTokens: "opaque",
    candidates: [troupe]
  }),
  "oauth-introspect-jwt": oauth({
    title: "introspection, JWT seen before (O3)",
    mode: "introspect-jwt",
    peerTokens: "opaque",
    candidates: [{ name: "floor, verifying each time", args: ["floor", "jwt"] }, troupe]
  })
}
