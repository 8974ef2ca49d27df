/** TMX files of given units, and a wait for what happens in the background. */
import { tmxBegin, tmxEnd, tmxUnit } from "../../../../protocols/formats/tmx.ts"

export type Unit = Readonly<Record<string, string>>

export const tmxOf = (units: ReadonlyArray<Unit>, source = "de"): string =>
  tmxBegin(source) +
  units
    .map((unit) => tmxUnit(Object.entries(unit).map(([language, text]) => ({ language, text }))))
    .join("") +
  tmxEnd

const turnsMax = 20_000

/** The first answer that is not undefined, asked for once an event-loop turn. */
export const until = async <A>(ask: () => Promise<A | undefined>): Promise<A> => {
  for (let turn = 0; turn < turnsMax; turn++) {
    const answer = await ask()
    if (answer !== undefined) return answer
    await new Promise((resolve) => setImmediate(resolve))
  }
  throw new Error("it did not come about")
}
