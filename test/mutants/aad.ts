/** Faults of sealing: associated data, and keys that serve one purpose each. A sealed value must not open at
 *  another address, and a hash of one kind must not pass for one of another. */
import type { Mutant } from "./mutant.ts"

const storage = ["test/storage/storage.test.ts"]
const upstream = ["test/protocols/authorization/upstream/token-broker.test.ts"]

export const aad: ReadonlyArray<Mutant> = [
  {
    id: "address-unbound",
    file: "storage/seal.ts",
    find: `nonce).setAAD(
        Buffer.from(address)
      )`,
    replace: "nonce)",
    also: { find: "          .setAAD(Buffer.from(address))\n", replace: "" },
    why: "a sealed value that was copied to another record opens there",
    tests: storage
  },
  {
    id: "one-key-for-all",
    file: "storage/seal.ts",
    find: "`troupe ${purpose}`",
    replace: "`troupe`",
    why: "every purpose has the same key",
    tests: storage
  },
  {
    id: "seal-purpose",
    file: "storage/seal.ts",
    find: `createCipheriv("aes-256-gcm", keyOf(\`seal \${purpose}\`)`,
    replace: `createCipheriv("aes-256-gcm", keyOf("seal")`,
    also: { find: "          keyOf(`seal ${purpose}`),", replace: `          keyOf("seal"),` },
    why: "a sealed value opens for another purpose",
    tests: storage
  },
  {
    id: "hash-purpose",
    file: "protocols/authorization/auth-context.ts",
    find: "seal.hash(secret, `authorization ${purpose}`)",
    replace: "seal.hash(secret, `authorization ${purpose === undefined}`)",
    why: "the hash of a state is the hash of a code: one secret finds the record of another kind",
    tests: ["test/protocols/authorization/auth-context.test.ts"]
  },
  {
    id: "csrf-is-the-session-hash",
    file: "protocols/store/access/staff.ts",
    find: `this.secrets.hash(secret, "store csrf")`,
    replace: `this.secrets.hash(secret, "store session")`,
    why: "each form shows the key under which its session is stored",
    tests: ["test/protocols/store/access/staff.test.ts"]
  },
  {
    id: "state-of-another-trip",
    file: "protocols/authorization/upstream/sealed-state.ts",
    find: `JSON.stringify(value)), "state", this.address)`,
    replace: `JSON.stringify(value)), "state", "")`,
    also: {
      find: `Buffer.from(state, "base64url"), "state", this.address)`,
      replace: `Buffer.from(state, "base64url"), "state", "")`
    },
    why: "the state of a connection signs somebody in",
    tests: ["test/protocols/authorization/upstream/sealed-state.test.ts"]
  },
  {
    id: "credential-of-another-user",
    file: "protocols/authorization/upstream/upstream-tokens.ts",
    find: "seal.seal(Buffer.from(JSON.stringify(credential)), purpose, `${userId}/${providerId}`)",
    replace: "seal.seal(Buffer.from(JSON.stringify(credential)), purpose, providerId)",
    also: {
      find: "seal.open(credential, purpose, `${userId}/${providerId}`)",
      replace: "seal.open(credential, purpose, providerId)"
    },
    why: "a row copied to another user opens that user's account elsewhere",
    tests: upstream
  },
  {
    id: "secret-of-another-provider",
    file: "protocols/authorization/upstream/providers.ts",
    find: `seal.seal(Buffer.from(secret), "provider-secret", providerId)`,
    replace: `seal.seal(Buffer.from(secret), "provider-secret", "")`,
    also: {
      find: `seal.open(sealedSecret, "provider-secret", id)`,
      replace: `seal.open(sealedSecret, "provider-secret", "")`
    },
    why: "a provider's secret is sent to another provider's address",
    tests: ["test/protocols/authorization/upstream/providers.test.ts"]
  },
  {
    id: "signing-key-of-another-kid",
    file: "protocols/authorization/token/signing-keys.ts",
    find: `seal.open(row.privateKey, "signing-key", row.kid)`,
    replace: `seal.open(row.privateKey, "signing-key", "")`,
    also: {
      find: `pair.privateKey.export({ format: "der", type: "pkcs8" }), "signing-key", kid)`,
      replace: `pair.privateKey.export({ format: "der", type: "pkcs8" }), "signing-key", "")`
    },
    why: "a private key that was copied to another row signs under that row's name",
    tests: ["test/protocols/authorization/token/signing-keys.test.ts"]
  },
  {
    id: "document-truncated",
    file: "actors/documents/sealed.ts",
    find: "  nonce[11] = last ? 1 : 0\n",
    replace: "  nonce[11] = last ? 0 : 0\n",
    why: "a document that was cut off at a chunk opens as if it were whole",
    tests: ["test/actors/documents/sealed.test.ts"]
  },
  {
    id: "document-chunks-swapped",
    file: "actors/documents/sealed.ts",
    find: "  nonce.writeUInt32BE(counter, 7)\n",
    replace: "  nonce.writeUInt32BE(Math.min(counter, 0), 7)\n",
    why: "every chunk has the same nonce: chunks can be swapped, and AES-GCM is broken",
    tests: ["test/actors/documents/sealed.test.ts"]
  },
  {
    id: "document-label",
    file: "actors/documents/sealed.ts",
    find: "derived(key, id, label, keyBytes)",
    replace: `derived(key, id, "", keyBytes)`,
    why: "source, result and name of a document are sealed under one key",
    tests: ["test/actors/documents/sealed.test.ts"]
  },
  {
    id: "document-id",
    file: "actors/documents/sealed.ts",
    find: `hkdfSync("sha256", key, id, `,
    replace: `hkdfSync("sha256", key, "", `,
    also: {
      find: "const derived = (key: Buffer, id: string, label",
      replace: "const derived = (key: Buffer, _id: string, label"
    },
    why: "a document key opens another document that was sealed with it",
    tests: ["test/actors/documents/sealed.test.ts"]
  }
]
