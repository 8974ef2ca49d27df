/** The ways from one language to another through an engine's directions (`en>es`): one direction, or two
 *  through a hub. It is guaranteed that a route uses only directions that work now.
 *  Source: docs/spec/engines.md, sections 2.3 and 2.4. */
import { Effect } from "effect"
import type { EngineFault, EngineSegment, Language, Translator } from "../ports.ts"

const baseOf = (language: Language): Language => language.split("-", 1)[0]!.toLowerCase()

export class Routes {
  /** The languages of all directions. */
  private readonly languages: ReadonlyArray<Language>

  private readonly hubs: ReadonlyArray<Language>
  private readonly works: (direction: string) => boolean

  /** Without `hubs` any language may be one; the first that works is taken. */
  constructor(
    directions: ReadonlyArray<string>,
    works: (direction: string) => boolean,
    hubs?: ReadonlyArray<Language>
  ) {
    this.languages = [...new Set(directions.flatMap((direction) => direction.split(">")))]
    this.hubs = hubs ?? this.languages
    this.works = works
  }

  /** The directions from source to target, in order. Regions are left out of account. */
  find(source: Language, target: Language): ReadonlyArray<string> | undefined {
    const from = baseOf(source)
    const to = baseOf(target)
    if (this.works(`${from}>${to}`)) return [`${from}>${to}`]
    const hub = this.hubs.find((via) => this.works(`${from}>${via}`) && this.works(`${via}>${to}`))
    return hub === undefined ? undefined : [`${from}>${hub}`, `${hub}>${to}`]
  }

  support(source: Language, target: Language): ReturnType<Translator["supports"]> {
    const route = this.find(source, target)
    if (route === undefined) return false
    return route.length === 1 ? "direct" : "pivot"
  }

  pairs(): ReadonlyArray<readonly [Language, Language]> {
    return this.languages.flatMap((source) =>
      this.languages
        .filter((target) => target !== source && this.find(source, target) !== undefined)
        .map((target) => [source, target] as const)
    )
  }
}

type Segments = ReadonlyArray<EngineSegment>

/** Translates along a route, one direction after the other. */
export const translateAlong = (
  route: ReadonlyArray<string>,
  segments: Segments,
  translateBy: (direction: string, segments: Segments) => Effect.Effect<Segments, EngineFault>
): Effect.Effect<Segments, EngineFault> =>
  route.reduce<Effect.Effect<Segments, EngineFault>>(
    (before, direction) => Effect.flatMap(before, (translated) => translateBy(direction, translated)),
    Effect.succeed(segments)
  )
