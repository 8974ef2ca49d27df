/** Protects secrets at rest. A secret that must be read again is sealed (AES-256-GCM, one key per purpose,
 *  the record's address as associated data); a secret that must only be recognized is stored as a keyed hash.
 *  Source: docs/security.md, "Secrets at rest". */
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  hkdfSync,
  randomBytes,
  timingSafeEqual
} from "node:crypto"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { storeFile } from "./data-folder.ts"
import { makeFolder } from "./files.ts"

const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export class SealFault extends Error {
  constructor(detail: string) {
    super(detail)
    this.name = "SealFault"
  }
}

/** Creates the file, unless another start did meanwhile. A disk that is full leaves no half of a key. */
const createKey = (path: string): void => {
  const text = `${randomBytes(keyBytes).toString("base64")}\n`
  try {
    writeFileSync(path, text, { mode: 0o600, flag: "wx", flush: true })
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EEXIST") return
    rmSync(path, { force: true })
    throw cause
  }
}

/** Returns the master key: the configured one (base64 or hex, 32 bytes), or the one in the file master.key of
 *  the data folder, which the first start creates with mode 0600. */
export const masterKey = (folder: string, configured: string | undefined): Buffer => {
  if (configured !== undefined && configured !== "") {
    const encoding = /^[0-9a-f]{64}$/i.test(configured) ? "hex" : "base64"
    const key = Buffer.from(configured, encoding)
    if (key.length !== keyBytes)
      throw new SealFault(
        "the master key (storage.master_key, SERVICE_MASTER_KEY) must be 32 bytes, as base64 or hex"
      )
    return key
  }
  const path = join(folder, "master.key")
  if (!existsSync(path)) {
    if (existsSync(join(folder, storeFile)))
      throw new SealFault(
        `${path} is missing, and the data beside it are sealed under it: bring it back, or set SERVICE_MASTER_KEY`
      )
    makeFolder(folder)
    createKey(path)
  }
  const key = Buffer.from(readFileSync(path, "utf8"), "base64")
  if (key.length !== keyBytes)
    throw new SealFault(`${path} does not hold a master key (${keyBytes} bytes, as base64): bring it back`)
  return key
}

export interface Sealer {
  /** Returns nonce ‖ ciphertext ‖ tag. `address` names the record, so that a sealed value moved to another
   *  record does not open. */
  seal(plain: Uint8Array, purpose: string, address: string): Uint8Array
  /** Opens a sealed value. It throws SealFault when the value was sealed under another key, was changed, or
   *  belongs to another address. */
  open(sealed: Uint8Array, purpose: string, address: string): Uint8Array
  /** Returns the HMAC-SHA256 of a token under a key of the purpose, as base64url, so that a token can be
   *  found and compared without being stored. */
  hash(token: string, purpose: string): string
}

/** Returns what data are marked with, so that a later start knows whether it has their master key. */
export const keyMarkOf = ({ hash }: Sealer): string => hash("the master key of these data", "master key")

export const sealer = (master: Uint8Array): Sealer => {
  const keys = new Map<string, Buffer>()
  const keyOf = (purpose: string): Buffer => {
    let key = keys.get(purpose)
    if (key === undefined)
      keys.set(purpose, (key = Buffer.from(hkdfSync("sha256", master, "", `troupe ${purpose}`, keyBytes))))
    return key
  }
  return {
    seal: (plain, purpose, address) => {
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv("aes-256-gcm", keyOf(`seal ${purpose}`), nonce).setAAD(
        Buffer.from(address)
      )
      return Buffer.concat([nonce, cipher.update(plain), cipher.final(), cipher.getAuthTag()])
    },
    open: (sealed, purpose, address) => {
      if (sealed.length < nonceBytes + tagBytes) throw new SealFault("not a sealed value")
      try {
        const decipher = createDecipheriv(
          "aes-256-gcm",
          keyOf(`seal ${purpose}`),
          sealed.subarray(0, nonceBytes)
        )
          .setAAD(Buffer.from(address))
          .setAuthTag(sealed.subarray(-tagBytes))
        return Buffer.concat([decipher.update(sealed.subarray(nonceBytes, -tagBytes)), decipher.final()])
      } catch {
        throw new SealFault("a sealed value does not open")
      }
    },
    hash: (token, purpose) =>
      createHmac("sha256", keyOf(`hash ${purpose}`))
        .update(token)
        .digest("base64url")
  }
}

/** Compares in constant time where the lengths are equal. */
export const equalSecrets = (a: string, b: string): boolean => {
  const x = Buffer.from(a)
  const y = Buffer.from(b)
  return x.length === y.length && timingSafeEqual(x, y)
}

const poolBytes = 4_096
let pool = Buffer.alloc(0)

/** Returns 32 random bytes as base64url. They are drawn 4 KiB at a time, because the call costs more than its
 *  bytes. */
export const randomToken = (): string => {
  if (pool.length < 32) pool = randomBytes(poolBytes)
  const token = pool.subarray(0, 32).toString("base64url")
  pool.fill(0, 0, 32)
  pool = pool.subarray(32)
  return token
}
