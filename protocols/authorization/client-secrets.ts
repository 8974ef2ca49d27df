/** Client secrets: 32 random bytes as base64url (43 characters), kept as HMAC-SHA-256 under the pepper. A slow hash is for what people choose;
 *  256 random bits need none. Source: authorization section 2.1. */
import { createHmac } from "node:crypto"
import type { Authority } from "./authority.ts"

export const secretHashOf = ({ settings, seal }: Pick<Authority, "settings" | "seal">, secret: string): string =>
  createHmac("sha256", settings.clientSecretPepper === "" ? "" : seal.hash(settings.clientSecretPepper, "authorization pepper")).update(secret).digest("base64url")
