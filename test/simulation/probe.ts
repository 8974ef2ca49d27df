/** Wraps an actor's definition so that the model hears what its rules decide, what its events fold into, and
 *  when its activities start. The definition itself is the one that the program hosts. Each is wrapped once;
 *  `hearing` says which run hears it. */
import { Cause, Effect, Exit, Stream } from "effect"
import type { AnyDefinition } from "../../runtime/actor.ts"
import type { AnyDecision, Ledger, Tagged } from "./books.ts"
import type { Model } from "./model.ts"

/** The run that is under way; undefined between runs, when a killed process may still twitch. */
export const hearing: { model: Model | undefined } = { model: undefined }

type Rule = (state: Tagged, payload: unknown, facts: { readonly id: string }) => AnyDecision
type Fold = (state: Tagged, event: Tagged) => Tagged
type Work = (state: Tagged, self: { readonly id: string }) => Stream.Stream<Tagged, never, any>

const mapValues = <A, B>(
  record: Record<string, A>,
  change: (value: A, name: string) => B
): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value, name)]))

export class ProcessIsDead extends Error {}

/** An activity whose commands, and whose death, the model hears. */
const heard = (
  model: Model,
  ledger: Ledger,
  phase: string,
  commands: Stream.Stream<Tagged, never, any>
): Stream.Stream<Tagged, never, any> => {
  const errand = model.activityStarts(ledger, phase)
  return commands.pipe(
    Stream.map((command) => (hearing.model === model ? model.emitted(errand, command) : command)),
    Stream.onExit((exit) =>
      Effect.sync(() => {
        if (hearing.model !== model) return
        const died = Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)
        model.activityEnded(errand)
        if (died) model.activityDied(errand)
        if (Exit.isSuccess(exit)) model.activityFinished(errand)
      })
    )
  )
}

export const probed = (definition: AnyDefinition): AnyDefinition => {
  const rule =
    (decide: Rule, command: string): Rule =>
    (state, payload, facts) => {
      const { model } = hearing
      if (model === undefined) throw new ProcessIsDead()
      const ledger = model.ledger(definition, facts.id)
      model.deciding(ledger, state, command)
      try {
        const decision = decide(state, payload, facts)
        model.decided(ledger, payload, state, decision)
        return decision
      } catch (fault) {
        model.ruleThrew(ledger)
        model.count("rule threw")
        throw fault
      }
    }
  const fold =
    (evolve: Fold): Fold =>
    (state, event) => {
      const { model } = hearing
      if (model === undefined || !model.folds(event)) return evolve(state, event)
      const after = evolve(state, event)
      model.folded(state, after)
      return after
    }
  const work =
    (activity: Work, phase: string): Work =>
    (state, self) => {
      const { model } = hearing
      const commands = activity(state, self)
      return model === undefined ? commands : heard(model, model.ledger(definition, self.id), phase, commands)
    }
  const { on, evolve, activity } = definition as unknown as {
    readonly on: Record<string, Record<string, Rule>>
    readonly evolve: Record<string, Fold>
    readonly activity?: Record<string, Work>
  }
  return {
    ...definition,
    on: mapValues(on, (rules) => mapValues(rules, rule)),
    evolve: mapValues(evolve, fold),
    ...(activity === undefined ? {} : { activity: mapValues(activity, work) })
  } as unknown as AnyDefinition
}
