/** What an actor is: one plain value, exported by one file in actors/. Types and constructors; nothing here
 *  runs. `named(shape)` says what it is, `behaves(rules)` what it does: `on` decides, `evolve` folds,
 *  `activity` works, `lanes` carry.
 *  Source: docs/architecture.md, "The kernel". */
import { type Duration, Schema, type Stream } from "effect"
import type { Write } from "../storage/store.ts"
import type { LaneIn, LaneOut } from "./lane.ts"

type Tagged = { readonly _tag: string }
type OfTag<U, T> = Extract<U, { readonly _tag: T }>
type Codec<A> = Schema.Codec<A, any>

/** One command an actor answers: its payload, its reply, and the refusals it may answer with. */
export interface Command<Payload, Reply, Refusal> {
  readonly payload: Codec<Payload>
  readonly reply: Codec<Reply>
  readonly refusal: Codec<Refusal>
}

/** Two signatures, because a refusal left out would otherwise be inferred as anything from where the command
 *  stands. */
export function command<const F extends Schema.Struct.Fields, Reply>(
  payload: F,
  answers: { readonly reply: Codec<Reply>; readonly refusal?: undefined }
): Command<Schema.Struct<F>["Type"], Reply, never>

export function command<const F extends Schema.Struct.Fields, Reply, Refusal>(
  payload: F,
  answers: { readonly reply: Codec<Reply>; readonly refusal: Codec<Refusal> }
): Command<Schema.Struct<F>["Type"], Reply, Refusal>

export function command(
  payload: Schema.Struct.Fields,
  answers: { readonly reply: Codec<any>; readonly refusal?: Codec<any> | undefined }
): Command<any, any, any> {
  return {
    payload: Schema.Struct(payload) as any,
    reply: answers.reply,
    refusal: answers.refusal ?? Schema.Never
  }
}

/** What a rule decides: facts to keep, rows to write with them, then one answer, which leaves after both are
 *  durable. */
export interface Decision<out Event, out Reply, out Refusal> {
  readonly events: ReadonlyArray<Event>
  readonly rows: ReadonlyArray<Write>
  /** When a row's condition does not hold: nothing is kept, and this is answered instead. Without it the
   *  asker hears a fault. */
  readonly otherwise: Decision<never, Reply, Refusal> | undefined
  readonly answer: { readonly reply: Reply } | { readonly refuse: Refusal }
}

const nothing: ReadonlyArray<never> = []

export const reply = <A>(reply: A): Decision<never, A, never> => ({
  events: nothing,
  rows: nothing,
  otherwise: undefined,
  answer: { reply }
})

export const refuse = <const E>(refuse: E): Decision<never, never, E> => ({
  events: nothing,
  rows: nothing,
  otherwise: undefined,
  answer: { refuse }
})

/** `persist(event, …).with(row, …).otherwise(instead).reply(value)`: events and rows commit in one
 *  transaction. `otherwise` says what is answered when a row's condition fails; then nothing is kept. */
class PersistBuilder<out E, out A = never, out X = never> {
  private readonly events: ReadonlyArray<E>
  private readonly rows: ReadonlyArray<Write>
  private readonly instead: Decision<never, A, X> | undefined

  constructor(
    events: ReadonlyArray<E>,
    rows: ReadonlyArray<Write>,
    instead: Decision<never, A, X> | undefined
  ) {
    this.events = events
    this.rows = rows
    this.instead = instead
  }

  with(...rows: ReadonlyArray<Write>): PersistBuilder<E, A, X> {
    return new PersistBuilder(this.events, [...this.rows, ...rows], this.instead)
  }

  otherwise<B, Y>(instead: Decision<never, B, Y>): PersistBuilder<E, B, Y> {
    return new PersistBuilder(this.events, this.rows, instead)
  }

  reply<B>(reply: B): Decision<E, A | B, X> {
    return { events: this.events, rows: this.rows, otherwise: this.instead, answer: { reply } }
  }

  refuse<const Y>(refuse: Y): Decision<E, A, X | Y> {
    return { events: this.events, rows: this.rows, otherwise: this.instead, answer: { refuse } }
  }
}

export const persist = <const E extends Tagged>(...events: ReadonlyArray<E>): PersistBuilder<E> =>
  new PersistBuilder(events, nothing, undefined)

/** The only outside things a rule may see, so that deciding is pure and can be replayed. */
export interface Facts {
  readonly id: string
  readonly nowMs: number
  /** A new random id (UUID v4). */
  readonly newId: () => string
}

export type Commands = { readonly [name: string]: Command<any, any, any> }
export type Payload<C> = C extends Command<infer P, any, any> ? P : never
export type Reply<C> = C extends Command<any, infer A, any> ? A : never
export type Refusal<C> = C extends Command<any, any, infer X> ? X : never

/** A command as a value, which an activity tells to its own actor. */
export type CommandOf<Cs extends Commands> = {
  readonly [C in keyof Cs & string]: { readonly _tag: C } & Payload<Cs[C]>
}[keyof Cs & string]

/** A bounded pipe beside the mailbox: bulk data passes through it to or from an activity, and is never
 *  journaled. `capacity` is in items; `whenFull`: offer answers false ("refuse"), or the producer is told to
 *  wait ("wait"). */
export interface Lane<Way extends "in" | "out", A> {
  readonly direction: Way
  readonly capacity: number
  readonly whenFull: "refuse" | "wait"
  readonly "~item"?: A
}

export const lane = {
  in: <A>(options: { readonly capacity: number; readonly whenFull: "refuse" | "wait" }): Lane<"in", A> => ({
    direction: "in",
    ...options
  }),
  out: <A>(options: { readonly capacity: number; readonly whenFull: "refuse" | "wait" }): Lane<"out", A> => ({
    direction: "out",
    ...options
  })
}

export type Lanes = { readonly [name: string]: Lane<any, any> }

/** The actor's side of its lanes: it takes from those in, puts into those out. */
export type InnerEnds<Ls extends Lanes> = {
  readonly [L in keyof Ls]: Ls[L] extends Lane<"in", infer A>
    ? LaneOut<A>
    : Ls[L] extends Lane<"out", infer A>
      ? LaneIn<A>
      : never
}

/** The world's side: it puts into lanes in, takes from lanes out. */
export type OuterEnds<Ls extends Lanes> = {
  readonly [L in keyof Ls]: Ls[L] extends Lane<"in", infer A>
    ? LaneIn<A>
    : Ls[L] extends Lane<"out", infer A>
      ? LaneOut<A>
      : never
}

/** What an actor is called, what it answers, what it keeps, and how it lives. */
export interface Shape<S extends Codec<any>, Cs extends Commands, V extends Codec<any>, Ls extends Lanes> {
  readonly state: S
  readonly event: V
  readonly commands: Cs
  readonly lanes?: Ls
  /** `journal`: events, folded on load, with a snapshot every `snapshotEvery`. `snapshot`: the state, at each
   *  change. `memory`: nothing. */
  readonly keep: "journal" | "snapshot" | "memory"
  readonly snapshotEvery?: number
  /** Versions of the stored event and state, and how an older one becomes today's. */
  readonly version?: {
    readonly event?: number
    readonly state?: number
    readonly upcastEvent?: (old: any, version: number) => unknown
    readonly upcastState?: (old: any, version: number) => unknown
  }
  readonly mailbox: { readonly capacity: number }
  /** Restart intensity: more than `times` defects `within` this makes the actor failed. Backoff doubles from
   *  `backoff` (default 50 ms), with jitter. */
  readonly restart: {
    readonly times: number
    readonly within: Duration.Input
    readonly backoff?: Duration.Input
  }
  readonly passivateAfter: Duration.Input
  /** When set, the time (epoch ms) at which a state expires; the sweeper then tells the actor its command
   *  `Expire`, which the commands must have. */
  readonly expiresAt?: (state: S["Type"]) => number | undefined
  /** Phases in which nothing is worth keeping any more: on entering one, journal, snapshot and expiry are
   *  removed in the same commit, the actor ends (watchers hear it), and its address is free, in its initial
   *  state. */
  readonly endsIn?: ReadonlyArray<S["Type"]["_tag"]>
  /** Phases whose activity must run after a restart of the process, without anybody asking (jobs). Only kept
   *  actors. */
  readonly resume?: ReadonlyArray<S["Type"]["_tag"]>
}

/** What an activity sees of its own actor. */
export interface Self<Ls extends Lanes> {
  readonly id: string
  readonly lanes: InnerEnds<Ls>
}

/** What an actor does: pure rules per phase and command, a pure fold, and the work each phase has in flight.
 *  */
export interface Behaviour<
  State extends Tagged,
  Cs extends Commands,
  Event extends Tagged,
  Ls extends Lanes,
  R
> {
  readonly initial: State
  readonly on: {
    readonly [P in State["_tag"]]: {
      readonly [C in keyof Cs]: Cs[C] extends Command<infer Payload, infer A, infer X>
        ? (state: OfTag<State, P>, payload: Payload, facts: Facts) => Decision<Event, A, X>
        : never
    }
  }
  readonly evolve: { readonly [E in Event["_tag"]]: (state: State, event: OfTag<Event, E>) => State }
  /** Started when the phase is entered (after the events that led there are durable), interrupted when it is
   *  left, restarted after a defect. Each element is told to the actor itself; the stream's end changes
   *  nothing. */
  readonly activity?: {
    readonly [P in State["_tag"]]?: (
      state: OfTag<State, P>,
      self: Self<Ls>
    ) => Stream.Stream<CommandOf<Cs>, never, R>
  }
}

export interface Definition<
  S extends Codec<any>,
  Cs extends Commands,
  V extends Codec<any>,
  Ls extends Lanes,
  R
>
  extends Shape<S, Cs, V, Ls>, Behaviour<S["Type"], Cs, V["Type"], Ls, R> {
  readonly kind: string
}

export type AnyDefinition = Definition<any, any, any, any, any>

export const defineActor = <
  S extends Codec<any>,
  const Cs extends Commands,
  V extends Codec<any>,
  Ls extends Lanes = {}
>(
  kind: string,
  shape: Shape<S, Cs, V, Ls>
) => ({
  behaves: <R = never>(
    behaviour: Behaviour<S["Type"], Cs, V["Type"], Ls, R>
  ): Definition<S, Cs, V, Ls, R> => ({ kind, ...shape, ...behaviour })
})
