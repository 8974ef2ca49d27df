/** Pools lend what there is little of: recognizers, places in a pipeline, processes. It is guaranteed that
 *  - an account waits behind its own requests, not behind another's: waiters are served round robin by account;
 *  - the queue is bounded, and when it is full the account with most waiters loses its newest, so nobody can fill
 *    it against the others;
 *  - a lease ends once: when it is released, when its time is up, or when the fiber that waits for it or uses it
 *    is interrupted;
 *  - a free resource that nobody waits for is lent in the same turn, without a fiber.
 *  Source: docs/spec/engines.md, section 11.1. */
import { Effect } from "effect"
import { EngineFault } from "./ports.ts"

/** The part of the actor system that ends leases in time. */
export interface PoolClock {
  readonly monotonicMs: () => number
  readonly timers: { after(ms: number, fire: () => void): unknown }
}

export interface PoolOptions<Resource> {
  /** The engine's id, which faults name. */
  readonly id: string
  readonly resources: ReadonlyArray<Resource>
  readonly waitersMax?: number
  readonly clock: PoolClock
  /** Of several free resources one for which this holds is lent first. */
  readonly prefer?: ((resource: Resource) => boolean) | undefined
  /** False for a resource that is lost: it is not lent. */
  readonly usable?: ((resource: Resource) => boolean) | undefined
  /** Is told of each resource that is lent, before it is used. */
  readonly onLend?: ((resource: Resource) => void) | undefined
}

const waitersMaxDefault = 256

export interface TakeOptions {
  readonly account: string
  /** Whoever is named here has one lease at most, and gets that when it asks again. */
  readonly owner?: string | undefined
  /** Goes before all that are not urgent: it had a lease and lost it. */
  readonly urgent?: boolean | undefined
}

interface Waiter<Resource> extends TakeOptions {
  readonly resume: (result: Effect.Effect<Lease<Resource>, EngineFault>) => void
  lease: Lease<Resource> | undefined
}

/** The right to use a resource until it ends. */
export class Lease<out Resource> {
  readonly resource: Resource
  readonly account: string
  readonly owner: string | undefined
  private readonly pool: LeasePool
  private readonly listeners: Array<() => void> = []
  private isEnded = false
  private isReturned = false
  private uses = 0
  private expiresMs = Infinity

  /** When the next timer fires. */
  private timerMs = Infinity

  constructor(pool: LeasePool, resource: Resource, { account, owner }: TakeOptions) {
    this.pool = pool
    this.resource = resource
    this.account = account
    this.owner = owner
  }

  get ended(): boolean {
    return this.isEnded
  }

  /** True while somebody waits for what this lease holds: work that can pause should let go. */
  get contended(): boolean {
    return this.pool.waiting > 0
  }

  /** Ends the lease so long from now, unless it is renewed again. */
  renew(ms: number): void {
    this.expiresMs = this.pool.clock.monotonicMs() + ms
    if (this.expiresMs < this.timerMs) this.schedule()
  }

  private schedule(): void {
    const atMs = this.expiresMs
    this.timerMs = atMs
    this.pool.clock.timers.after(atMs - this.pool.clock.monotonicMs(), () => {
      // An earlier timer may have taken its place.
      if (this.isEnded || this.timerMs !== atMs) return
      this.timerMs = Infinity
      if (this.pool.clock.monotonicMs() >= this.expiresMs) this.release()
      else this.schedule()
    })
  }

  /** Calls the listener when the lease ends; at once when it has ended. */
  onEnd(listener: () => void): void {
    if (this.isEnded) listener()
    else this.listeners.push(listener)
  }

  /** Waits until the lease ends. */
  get end(): Effect.Effect<void> {
    return Effect.callback((resume) => this.onEnd(() => resume(Effect.void)))
  }

  /** Begins a use of the resource: until it leaves, nobody else gets the resource, even if the lease ends. */
  enter(): void {
    this.uses++
  }

  leave(): void {
    this.uses--
    this.giveBack()
  }

  private giveBack(): void {
    if (!this.isEnded || this.uses > 0 || this.isReturned) return
    this.isReturned = true
    this.pool.takeBack(this)
  }

  release(): void {
    if (this.isEnded) return
    this.isEnded = true
    this.pool.disown(this)
    for (const listener of this.listeners.splice(0)) listener()
    this.giveBack()
  }
}

/** What a lease knows of its pool. */
interface LeasePool {
  readonly clock: PoolClock
  readonly waiting: number
  disown(lease: Lease<unknown>): void
  takeBack(lease: Lease<unknown>): void
}

export class Pool<Resource> implements LeasePool {
  readonly clock: PoolClock
  private readonly id: string
  private readonly waitersMax: number
  private readonly prefer: ((resource: Resource) => boolean) | undefined
  private readonly usable: (resource: Resource) => boolean
  private readonly onLend: ((resource: Resource) => void) | undefined
  private readonly resources: ReadonlyArray<Resource>
  private readonly free: Array<Resource>
  private readonly owners = new Map<string, Lease<Resource>>()
  private readonly urgent: Array<Waiter<Resource>> = []

  /** Waiters by account; the account whose turn is next comes first. */
  private readonly queues = new Map<string, Array<Waiter<Resource>>>()

  private waiters = 0
  private lending = false

  constructor({
    id,
    resources,
    waitersMax = waitersMaxDefault,
    clock,
    prefer,
    usable = () => true,
    onLend
  }: PoolOptions<Resource>) {
    this.id = id
    this.resources = resources
    this.usable = usable
    this.onLend = onLend
    this.free = [...resources]
    this.waitersMax = waitersMax
    this.clock = clock
    this.prefer = prefer
  }

  get used(): number {
    return this.resources.length - this.free.length
  }

  /** How many resources there are that can be lent. */
  get size(): number {
    return this.resources.reduce((count, resource) => (this.usable(resource) ? count + 1 : count), 0)
  }

  get waiting(): number {
    return this.waiters
  }

  held(owner: string): Lease<Resource> | undefined {
    return this.owners.get(owner)
  }

  /** Lends at once; undefined when nothing is free, or somebody waits. */
  tryTake(options: TakeOptions): Lease<Resource> | undefined {
    const held = options.owner === undefined ? undefined : this.owners.get(options.owner)
    if (held !== undefined) return held
    return this.waiters > 0 ? undefined : this.lend(options)
  }

  /** Lends in turn. The caller releases the lease, whatever happens to it; `use` does so by itself. */
  take(options: TakeOptions): Effect.Effect<Lease<Resource>, EngineFault> {
    return Effect.uninterruptibleMask((restore) => this.taken(options, restore))
  }

  /** Lends a resource for as long as the work lasts. */
  use<A, E, R>(
    options: TakeOptions,
    work: (resource: Resource) => Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | EngineFault, R> {
    return Effect.uninterruptibleMask((restore) =>
      Effect.flatMap(this.taken(options, restore), (lease) =>
        Effect.onExit(restore(work(lease.resource)), () => Effect.sync(() => lease.release()))
      )
    )
  }

  private taken(
    options: TakeOptions,
    restore: <A, E>(effect: Effect.Effect<A, E>) => Effect.Effect<A, E>
  ): Effect.Effect<Lease<Resource>, EngineFault> {
    return Effect.suspend(() => {
      const lease = this.tryTake(options)
      if (lease !== undefined) return Effect.succeed(lease)
      if (this.size === 0) return Effect.fail(this.allLost())
      if (!this.makeRoomFor(options.account)) return Effect.fail(this.overloaded())
      let waiter: Waiter<Resource> | undefined
      const turn = Effect.callback<Lease<Resource>, EngineFault>((resume) => {
        waiter = { ...options, resume, lease: undefined }
        this.enqueue(waiter)
      })
      return Effect.onInterrupt(restore(turn), () =>
        Effect.sync(() => {
          if (waiter === undefined) return
          if (waiter.lease === undefined) this.remove(waiter)
          else waiter.lease.release()
        })
      )
    })
  }

  disown({ owner }: Lease<Resource>): void {
    if (owner !== undefined) this.owners.delete(owner)
  }

  takeBack(lease: Lease<Resource>): void {
    this.free.push(lease.resource)
    this.lendToWaiters()
  }

  private lend(options: TakeOptions): Lease<Resource> | undefined {
    const { prefer, usable } = this
    const preferred =
      prefer === undefined ? -1 : this.free.findIndex((resource) => prefer(resource) && usable(resource))
    const index = preferred >= 0 ? preferred : this.free.findIndex(usable)
    if (index < 0) return undefined
    const [resource] = this.free.splice(index, 1)
    this.onLend?.(resource!)
    const lease = new Lease(this, resource!, options)
    if (options.owner !== undefined) this.owners.set(options.owner, lease)
    return lease
  }

  /** A waiter may run, and release, in the turn in which it gets its lease: a loop instead of a recursion. */
  private lendToWaiters(): void {
    if (this.lending) return
    this.lending = true
    try {
      while (this.waiters > 0) {
        const allLost = this.size === 0
        if (!allLost && !this.free.some(this.usable)) return
        const waiter = this.nextWaiter()!
        if (allLost) {
          waiter.resume(Effect.fail(this.allLost()))
          continue
        }
        const held = waiter.owner === undefined ? undefined : this.owners.get(waiter.owner)
        const lease = held ?? this.lend(waiter)!
        waiter.lease = lease
        waiter.resume(Effect.succeed(lease))
      }
    } finally {
      this.lending = false
    }
  }

  private nextWaiter(): Waiter<Resource> | undefined {
    const urgent = this.urgent.shift()
    if (urgent !== undefined) {
      this.waiters--
      return urgent
    }
    for (const [account, queue] of this.queues) {
      const waiter = queue.shift()!
      this.waiters--
      // Its account's next turn comes after everybody else's.
      this.queues.delete(account)
      if (queue.length > 0) this.queues.set(account, queue)
      return waiter
    }
    return undefined
  }

  private enqueue(waiter: Waiter<Resource>): void {
    this.waiters++
    if (waiter.urgent === true) {
      this.urgent.push(waiter)
      return
    }
    const queue = this.queues.get(waiter.account)
    if (queue === undefined) this.queues.set(waiter.account, [waiter])
    else queue.push(waiter)
  }

  private remove(waiter: Waiter<Resource>): void {
    const queue = waiter.urgent === true ? this.urgent : this.queues.get(waiter.account)
    const index = queue?.indexOf(waiter) ?? -1
    if (index < 0) return
    queue!.splice(index, 1)
    this.waiters--
    if (queue!.length === 0 && queue !== this.urgent) this.queues.delete(waiter.account)
  }

  /** True when one more of this account may wait. In a full queue the newest waiter of the account with most of
   *  them makes room, unless that is this account. */
  private makeRoomFor(account: string): boolean {
    if (this.waiters < this.waitersMax) return true
    let longest: Array<Waiter<Resource>> = this.queues.get(account) ?? []
    const own = longest
    for (const queue of this.queues.values()) if (queue.length > longest.length + 1) longest = queue
    if (longest === own) return false
    const evicted = longest.at(-1)!
    this.remove(evicted)
    evicted.resume(Effect.fail(this.overloaded()))
    return true
  }

  private allLost(): EngineFault {
    return new EngineFault({ reason: "unavailable", engine: this.id, detail: "none of it works" })
  }

  private overloaded(): EngineFault {
    return new EngineFault({
      reason: "overloaded",
      engine: this.id,
      detail: `${this.used} are at work and ${this.waiters} wait`
    })
  }
}

/** So many equal places. */
export const places = (count: number): ReadonlyArray<number> => Array.from({ length: count }, (_, i) => i)
