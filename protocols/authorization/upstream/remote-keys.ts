/** Keys that another party publishes: its discovery document and key set are cached for a time and fetched
 *  again within limits. Guarantee: however many tokens with unknown key ids arrive, a party is asked at most
 *  once a minute.
 *  Source: docs/spec/authorization.md, section 13.2. */
import { createPublicKey, type KeyObject } from "node:crypto"
import { Effect } from "effect"
import { flatMapLater, mapLater, type Later } from "../../../runtime/http.ts"
import { Flights } from "../../shared/flights.ts"
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
  configuration: { readonly document: Members; readonly fetchedMs: number } | undefined
}

const bodyBytesMax = 262_144
const keysMax = 100
const partiesMax = 1_000
const rsaBitsMin = 2_048
const rsaBitsMax = 8_192
const refetchEveryMs = 60_000

const nameOf = ({ id }: Party, { place }: Entry): string => `${id} ${place}`

export class RemoteKeys {
  private readonly fetcher: SafeFetch
  private readonly rules: KeyRules
  private readonly nowMs: () => number
  private readonly entries = new Map<string, Entry>()
  /** A fetch of keys goes on without those who wait for it: they are everybody's, and there is no second one for a
   *  minute. */
  private readonly fetching = new Flights<KeySet, FetchFault>({ withLastWaiter: false })
  private readonly configuring = new Flights<Members, FetchFault>({ withLastWaiter: true })

  constructor(fetcher: SafeFetch, rules: KeyRules, nowMs: () => number) {
    this.fetcher = fetcher
    this.rules = rules
    this.nowMs = nowMs
  }

  /** Returns the key that fits the header; undefined when there is none or it cannot be fetched. */
  keyFor(party: Party, header: KeyHeader): Later<KeyObject | undefined> {
    const entry = this.entry(party)
    const isOld = entry.keys === undefined || this.ageMs(entry.keys) >= this.rules.keptMs
    return flatMapLater(isOld ? this.renewed(party, entry) : undefined, () => {
      const found = this.chosen(entry, header)
      return found !== undefined ||
        header.kid === undefined ||
        entry.keys?.keys.some(({ kid }) => kid === header.kid) === true
        ? found
        : mapLater(this.renewed(party, entry), () => this.chosen(entry, header))
    })
  }

  /** Fetches now, whatever is cached, and returns the number of usable keys. */
  refresh(party: Party): Effect.Effect<number, FetchFault> {
    return Effect.map(
      Effect.suspend(() => this.fetch(party, this.entry(party))),
      ({ keys }) => keys.length
    )
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
  configuration(party: Party): Effect.Effect<Members, FetchFault> {
    return Effect.suspend(() => {
      const entry = this.entry(party)
      const cached = entry.configuration
      return cached !== undefined && this.ageMs(cached) < this.rules.keptMs
        ? Effect.succeed(cached.document)
        : this.configuring.join(nameOf(party, entry), () => this.configured(party, entry))
    })
  }

  private configured(party: Party, entry: Entry): Effect.Effect<Members, FetchFault> {
    const url = `${party.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`
    return Effect.flatMap(this.read(url), (document) => {
      if (document["issuer"] !== party.issuer) return Effect.fail(new FetchFault({ reason: "broken" }))
      entry.configuration = { document, fetchedMs: this.nowMs() }
      return Effect.succeed(document)
    })
  }

  private entry({ id, issuer, jwksUri }: Party): Entry {
    const place = `${issuer} ${jwksUri}`
    const existing = this.entries.get(id)
    if (existing?.place === place) return existing
    const entry: Entry = { place, keys: undefined, triedMs: 0, tried: false, configuration: undefined }
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
  private renewed(party: Party, entry: Entry): Effect.Effect<void> | undefined {
    const waitMs = Math.min(refetchEveryMs, this.rules.keptMs)
    if (!this.fetching.has(nameOf(party, entry)) && entry.tried && this.nowMs() - entry.triedMs < waitMs)
      return undefined
    return Effect.ignore(this.fetch(party, entry))
  }

  private fetch(party: Party, entry: Entry): Effect.Effect<KeySet, FetchFault> {
    return this.fetching.join(nameOf(party, entry), () => {
      entry.triedMs = this.nowMs()
      entry.tried = true
      return Effect.map(this.fetched(party), (keys) => (entry.keys = keys))
    })
  }

  private fetched(party: Party): Effect.Effect<KeySet, FetchFault> {
    const broken = Effect.fail(new FetchFault({ reason: "broken" }))
    return Effect.gen({ self: this }, function* () {
      let { jwksUri } = party
      if (jwksUri === "") {
        const configuration = yield* this.configuration(party)
        if (typeof configuration["jwks_uri"] !== "string") return yield* broken
        jwksUri = configuration["jwks_uri"]
      }
      const { keys } = yield* this.read(jwksUri)
      if (!Array.isArray(keys) || keys.length > keysMax) return yield* broken
      return { keys: keys.map(publicKey).filter((key) => key !== undefined), fetchedMs: this.nowMs() }
    })
  }

  private read(url: string): Effect.Effect<Members, FetchFault> {
    const { timeoutMs, allowPrivateAddresses } = this.rules
    const fetching = this.fetcher.fetch({
      url,
      bodyBytesMax,
      timeoutMs,
      allowPrivateAddresses,
      allowHttp: allowPrivateAddresses,
      headers: { Accept: "application/json, application/jwk-set+json" }
    })
    return Effect.flatMap(fetching, (fetched) => {
      const document = fetched.status === 200 && isJson(fetched) ? parseObject(fetched.body) : undefined
      return document === undefined || isWireFault(document)
        ? Effect.fail(new FetchFault({ reason: "broken" }))
        : Effect.succeed(document)
    })
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
