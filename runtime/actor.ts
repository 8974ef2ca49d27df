/** Defines what an actor is: one plain value, exported by one file in actors/. This module holds types and
 *  constructors; nothing in it runs. `defineActor(kind, shape)` declares the protocol, storage and limits of
 *  an actor; `.behaves(behaviour)` adds what it does: `on` decides, `evolve` folds events into the state,
 *  `activity` does the work of a phase, and `lanes` carry bulk data. Source: docs/architecture.md, "The
 *  kernel". */
import { type Duration, Schema, type Stream } from "effect"
import type { Write } from "../storage/store.ts"
import type { LaneIn, LaneOut } from "./lane.ts"

type Tagged = { readonly _tag: string }
type OfTag<U, T> = Extract<U, { readonly _tag: T }>
type Codec<A> = Schema.Codec<A, any>

/** Declares one command that an actor answers: its payload, its reply, and the refusals it may answer
 *  with. */
export interface Command<Payload, Reply, Refusal> {
  readonly payload: Codec<Payload>
  readonly reply: Codec<Reply>
  readonly refusal: Codec<Refusal>
}

/** Declares a command. There are two signatures, because without them an omitted refusal would be inferred
 *  from the context of the call and could become anything. */
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

/** The result of a rule: events to store, rows to write with them, and one answer, which leaves only after
 *  both are durable. */
export interface Decision<out Event, out Reply, out Refusal> {
  readonly events: ReadonlyArray<Event>
  readonly rows: ReadonlyArray<Write>
  /** Replaces this decision when the condition of a row does not hold: nothing is written, and this is
   *  answered instead. Without it the asker gets a fault. */
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

/** Builds a decision that writes: `persist(event, …).with(row, …).otherwise(instead).reply(value)`. Events
 *  and rows commit in one transaction. `otherwise` says what is answered when a row's condition does not
 *  hold; nothing is written then. */
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

/** Gives a rule the only outside facts it may see, so that deciding is pure and can be replayed. */
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

/** A command as a value, which an activity sends to its own actor. */
export type CommandOf<Cs extends Commands> = {
  readonly [C in keyof Cs & string]: { readonly _tag: C } & Payload<Cs[C]>
}[keyof Cs & string]

/** A bounded pipe beside the mailbox, which carries bulk data to or from an activity and is never journaled.
 *  `capacity` is a number of items. When the lane is full, `whenFull` decides: "refuse" makes `offer` return
 *  false, "wait" makes the producer wait for room. */
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

/** The lane ends that an activity holds: it takes from lanes in and puts into lanes out. */
export type InnerEnds<Ls extends Lanes> = {
  readonly [L in keyof Ls]: Ls[L] extends Lane<"in", infer A>
    ? LaneOut<A>
    : Ls[L] extends Lane<"out", infer A>
      ? LaneIn<A>
      : never
}

/** The lane ends that everybody else holds: they put into lanes in and take from lanes out. */
export type OuterEnds<Ls extends Lanes> = {
  readonly [L in keyof Ls]: Ls[L] extends Lane<"in", infer A>
    ? LaneIn<A>
    : Ls[L] extends Lane<"out", infer A>
      ? LaneOut<A>
      : never
}

/** Declares an actor's protocol, what is stored of it, and how it lives in memory. */
export interface Shape<S extends Codec<any>, Cs extends Commands, V extends Codec<any>, Ls extends Lanes> {
  readonly state: S
  readonly event: V
  readonly commands: Cs
  readonly lanes?: Ls
  /** Chooses what is stored. `journal`: events, folded on load, with a snapshot after every `snapshotEvery`
   *  events. `snapshot`: the whole state, at each change. `memory`: nothing. */
  readonly keep: "journal" | "snapshot" | "memory"
  readonly snapshotEvery?: number
  /** Numbers the stored forms of event and state, and converts an older form into the current one. */
  readonly version?: {
    readonly event?: number
    readonly state?: number
    readonly upcastEvent?: (old: any, version: number) => unknown
    readonly upcastState?: (old: any, version: number) => unknown
  }
  readonly mailbox: { readonly capacity: number }
  /** Limits restarts: more than `times` defects within `within` mark the actor failed. The wait before a
   *  restart begins at `backoff` (default 50 ms) and doubles, with jitter. */
  readonly restart: {
    readonly times: number
    readonly within: Duration.Input
    readonly backoff?: Duration.Input
  }
  readonly passivateAfter: Duration.Input
  /** Limits the actors of this kind in memory (default: a quarter of the system's limit for
   *  `keep: "memory"`, otherwise only that limit). Beyond it the least recently used idle ones leave; those of `keep: "memory"` are
   *  forgotten. */
  readonly residentMax?: number
  /** Returns the time (epoch ms) at which a state expires; the sweeper then sends the actor its command
   *  `Expire`, which its commands must declare. */
  readonly expiresAt?: (state: S["Type"]) => number | undefined
  /** Lists the phases that end the actor: on entering one, its journal, snapshot and expiry are removed in
   *  the same commit, its watchers are called, and its address is free again, in the initial state. */
  readonly endsIn?: ReadonlyArray<S["Type"]["_tag"]>
  /** Lists the phases whose activity must continue after a restart of the process without anybody asking
   *  (jobs). It has no effect on actors whose state is not stored. */
  readonly resume?: ReadonlyArray<S["Type"]["_tag"]>
}

/** Gives an activity access to its own actor. */
export interface Self<Ls extends Lanes> {
  readonly id: string
  readonly lanes: InnerEnds<Ls>
}

/** Declares what an actor does: pure rules per phase and command, a pure fold of events, and the work that
 *  runs during each phase. */
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
  /** Runs while the actor is in the phase: it is started when the phase is entered (after the events that led
   *  there are durable), interrupted when the phase is left, and restarted after a defect. Each element of
   *  the stream is sent to the actor itself; the end of the stream changes nothing. */
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
