/** Keys that another party publishes: its discovery document and key set are cached for a time and fetched
 *  again within limits. Guarantee: however many tokens with unknown key ids arrive, a party is asked at most
 *  once a minute.
 *  Source: docs/spec/authorization.md, section 13.2. */
import { createPublicKey, type KeyObject } from "node:crypto"
import { FetchFault, isJson, type SafeFetch } from "./safe-fetch.ts"
import { isWireFault, parseObject, type Members } from "../wire.ts"

export interface Party {
  /** Key of the party's cache entries. */
  readonly id: string
  readonly issuer: string
  /** URL of the key set; "" when the discovery document names it. */
  readonly jwksUri: string
}

/** Header members of a token that claims to be the party's. */
export interface KeyHeader {
  readonly alg: string
  readonly kid?: string | undefined
}

export interface KeyRules {
  readonly keptMs: number
  readonly timeoutMs: number
  /** Allows http too, and only then. */
  readonly allowPrivateAddresses: boolean
}

interface PublicKey {
  readonly kid: string | undefined
  readonly alg: string | undefined
  readonly key: KeyObject
}

interface KeySet {
  readonly keys: ReadonlyArray<PublicKey>
  readonly fetchedMs: number
}

interface Entry {
  readonly place: string
  keys: KeySet | undefined
  /** Time of the last fetch in epoch ms, whether or not it succeeded. */
  triedMs: number
  tried: boolean
  fetching: Promise<KeySet | FetchFault> | undefined
  configuration: { readonly document: Members; readonly fetchedMs: number } | undefined
  configuring: Promise<Members | FetchFault> | undefined
}

const bodyBytesMax = 262_144
const keysMax = 100
const partiesMax = 1_000
const rsaBitsMin = 2_048
const rsaBitsMax = 8_192
const refetchEveryMs = 60_000

export class RemoteKeys {
  private readonly fetcher: SafeFetch
  private readonly rules: KeyRules
  private readonly nowMs: () => number
  private readonly entries = new Map<string, Entry>()

  constructor(fetcher: SafeFetch, rules: KeyRules, nowMs: () => number) {
    this.fetcher = fetcher
    this.rules = rules
    this.nowMs = nowMs
  }

  /** Returns the key that fits the header; undefined when there is none or it cannot be fetched. */
  async keyFor(party: Party, header: KeyHeader): Promise<KeyObject | undefined> {
    const entry = this.entry(party)
    if (entry.keys === undefined || this.ageMs(entry.keys) >= this.rules.keptMs)
      await this.renewed(party, entry)
    const found = this.chosen(entry, header)
    if (
      found !== undefined ||
      header.kid === undefined ||
      entry.keys?.keys.some(({ kid }) => kid === header.kid) === true
    )
      return found
    await this.renewed(party, entry)
    return this.chosen(entry, header)
  }

  /** Fetches now, whatever is cached, and resolves to the number of usable keys; rejects with FetchFault. */
  async refresh(party: Party): Promise<number> {
    const keys = await this.fetch(party, this.entry(party))
    if (keys instanceof FetchFault) throw keys
    return keys.keys.length
  }

  forget(id: string): void {
    this.entries.delete(id)
  }

  fetchedMs(id: string): number | undefined {
    return this.entries.get(id)?.keys?.fetchedMs
  }

  /** True when cached keys can still be used, which distinguishes an unknown key from an unreachable
   *  party. */
  hasKeys(id: string): boolean {
    const keys = this.entries.get(id)?.keys
    return keys !== undefined && this.ageMs(keys) < 2 * this.rules.keptMs
  }

  /** Fetches the discovery document, or returns the cached one, and checks that its issuer is the party's. */
  async configuration(party: Party): Promise<Members | FetchFault> {
    const entry = this.entry(party)
    const cached = entry.configuration
    if (cached !== undefined && this.ageMs(cached) < this.rules.keptMs) return cached.document
    return (entry.configuring ??= this.configured(party, entry).finally(() => {
      entry.configuring = undefined
    }))
  }

  private async configured(party: Party, entry: Entry): Promise<Members | FetchFault> {
    const document = await this.read(`${party.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`)
    if (document instanceof FetchFault) return document
    if (document["issuer"] !== party.issuer) return new FetchFault({ reason: "broken" })
    entry.configuration = { document, fetchedMs: this.nowMs() }
    return document
  }

  private entry({ id, issuer, jwksUri }: Party): Entry {
    const place = `${issuer} ${jwksUri}`
    const existing = this.entries.get(id)
    if (existing?.place === place) return existing
    const entry: Entry = {
      place,
      keys: undefined,
      triedMs: 0,
      tried: false,
      fetching: undefined,
      configuration: undefined,
      configuring: undefined
    }
    if (existing === undefined && this.entries.size >= partiesMax)
      this.entries.delete(this.entries.keys().next().value!)
    this.entries.set(id, entry)
    return entry
  }

  private ageMs({ fetchedMs }: { readonly fetchedMs: number }): number {
    return this.nowMs() - fetchedMs
  }

  /** Fetches, unless the last attempt was a moment ago. When the fetch fails, the cached keys remain usable
   *  up to twice `keptMs`. */
  private async renewed(party: Party, entry: Entry): Promise<void> {
    const waitMs = Math.min(refetchEveryMs, this.rules.keptMs)
    if (entry.fetching === undefined && entry.tried && this.nowMs() - entry.triedMs < waitMs) return
    await this.fetch(party, entry)
  }

  private fetch(party: Party, entry: Entry): Promise<KeySet | FetchFault> {
    entry.triedMs = this.nowMs()
    entry.tried = true
    return (entry.fetching ??= this.fetched(party)
      .then((keys) => {
        if (!(keys instanceof FetchFault)) entry.keys = keys
        return keys
      })
      .finally(() => {
        entry.fetching = undefined
      }))
  }

  private async fetched(party: Party): Promise<KeySet | FetchFault> {
    let { jwksUri } = party
    if (jwksUri === "") {
      const configuration = await this.configuration(party)
      if (configuration instanceof FetchFault) return configuration
      if (typeof configuration["jwks_uri"] !== "string") return new FetchFault({ reason: "broken" })
      jwksUri = configuration["jwks_uri"]
    }
    const document = await this.read(jwksUri)
    if (document instanceof FetchFault) return document
    const { keys } = document
    if (!Array.isArray(keys) || keys.length > keysMax) return new FetchFault({ reason: "broken" })
    return { keys: keys.map(publicKey).filter((key) => key !== undefined), fetchedMs: this.nowMs() }
  }

  private async read(url: string): Promise<Members | FetchFault> {
    const { timeoutMs, allowPrivateAddresses } = this.rules
    const fetched = await this.fetcher.fetch({
      url,
      bodyBytesMax,
      timeoutMs,
      allowPrivateAddresses,
      allowHttp: allowPrivateAddresses,
      headers: { Accept: "application/json, application/jwk-set+json" }
    })
    if (fetched instanceof FetchFault) return fetched
    const document = fetched.status === 200 && isJson(fetched) ? parseObject(fetched.body) : undefined
    return document === undefined || isWireFault(document) ? new FetchFault({ reason: "broken" }) : document
  }

  private chosen({ keys }: Entry, { alg, kid }: KeyHeader): KeyObject | undefined {
    // Keys that could not be fetched again are usable up to twice `keptMs`.
    if (keys === undefined || this.ageMs(keys) >= 2 * this.rules.keptMs) return undefined
    const fitting = keys.keys.filter(
      (one) =>
        (kid === undefined || one.kid === kid) &&
        (one.alg === undefined || one.alg === alg) &&
        fits(one.key, alg)
    )
    return kid !== undefined || fitting.length === 1 ? fitting[0]?.key : undefined
  }
}

/** Returns undefined for a key that must not verify anything: symmetric, weak, malformed or for
 *  encryption. */
const publicKey = (jwk: unknown): PublicKey | undefined => {
  if (typeof jwk !== "object" || jwk === null) return undefined
  const { kty, crv, x, y, n, e, use, kid, alg } = jwk as Members
  if ((kty !== "EC" && kty !== "RSA") || (use !== undefined && use !== "sig")) return undefined
  try {
    const key = createPublicKey({
      format: "jwk",
      key: (kty === "EC" ? { kty, crv, x, y } : { kty, n, e }) as import("node:crypto").JsonWebKey
    })
    const bits = key.asymmetricKeyDetails?.modulusLength
    if (kty === "RSA" && (bits === undefined || bits < rsaBitsMin || bits > rsaBitsMax)) return undefined
    return {
      kid: typeof kid === "string" ? kid : undefined,
      alg: typeof alg === "string" ? alg : undefined,
      key
    }
  } catch {
    return undefined
  }
}

const fits = ({ asymmetricKeyType, asymmetricKeyDetails }: KeyObject, alg: string): boolean =>
  alg === "ES256"
    ? asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === "prime256v1"
    : (alg === "RS256" || alg === "PS256") && asymmetricKeyType === "rsa"
