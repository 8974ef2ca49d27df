/** The text of refresh tokens: `rt1.`, the family id, `.`, and 32 bytes, which are the generation (6 bytes)
 *  and a MAC over family and generation (26 bytes). The key of the MAC is derived from the master key, so
 *  nothing of a token is stored, and reading the store is not enough to forge one.
 *  Source: docs/spec/authorization.md, section 8.4. */
import { timingSafeEqual } from "node:crypto"
import type { AuthContext } from "../auth-context.ts"

const generationBytes = 6
const macBytes = 26

export interface DecodedRefreshToken {
  readonly familyId: string
  readonly generation: number
}

export class RefreshTokenCodec {
  private readonly seal: AuthContext["seal"]

  constructor({ seal }: Pick<AuthContext, "seal">) {
    this.seal = seal
  }

  encode(familyId: string, generation: number): string {
    const idHex = familyId.replaceAll("-", "")
    const secret = Buffer.alloc(generationBytes + macBytes)
    secret.writeUIntBE(generation, 0, generationBytes)
    this.macOf(idHex, generation).copy(secret, generationBytes)
    return `rt1.${Buffer.from(idHex, "hex").toString("base64url")}.${secret.toString("base64url")}`
  }

  /** Returns undefined for a text that this server has not issued. */
  decode(text: string): DecodedRefreshToken | undefined {
    const [, id64, secret64] = /^rt1\.([A-Za-z0-9_-]{22})\.([A-Za-z0-9_-]{43})$/.exec(text) ?? []
    if (id64 === undefined || secret64 === undefined) return undefined
    const idHex = Buffer.from(id64, "base64url").toString("hex")
    const secret = Buffer.from(secret64, "base64url")
    const generation = secret.readUIntBE(0, generationBytes)
    const mac = secret.subarray(generationBytes)
    if (mac.length !== macBytes || !timingSafeEqual(mac, this.macOf(idHex, generation))) return undefined
    return { familyId: uuidOf(idHex), generation }
  }

  private macOf(idHex: string, generation: number): Buffer {
    return Buffer.from(
      this.seal.hash(
        `${idHex}.${generation.toString(16).padStart(2 * generationBytes, "0")}`,
        "authorization refresh"
      ),
      "base64url"
    ).subarray(0, macBytes)
  }
}

const uuidOf = (hex: string): string =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
