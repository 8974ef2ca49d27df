/** A guard checks that a value already equals what its schema would encode or decode it to: it has exactly
 *  the schema's members, in the schema's order, each of its type and within its checks, with no
 *  transformation anywhere. Then encoding and decoding have nothing to do (bench/oauth-refresh). Every other
 *  value, an invalid one included, is left to the schema. */
import type { SchemaAST } from "effect"

export type Guard = (value: unknown) => boolean
type Checks = SchemaAST.AST["checks"]

const passes = (checks: NonNullable<Checks>, value: unknown, ast: SchemaAST.AST): boolean =>
  checks.every((check) =>
    check._tag === "FilterGroup" ? passes(check.checks, value, ast) : check.run(value, ast, {}) === undefined
  )

/** Compiles the guard of a schema. Returns undefined when parts of the schema encode to something else, or
 *  are not recognized here. */
export const identityGuard = (ast: SchemaAST.AST): Guard | undefined => {
  if (ast.encoding !== undefined || ("encodingChecks" in ast && ast.encodingChecks !== undefined))
    return undefined
  const guard = shapeOf(ast)
  const { checks } = ast
  return guard === undefined || checks === undefined
    ? guard
    : (value) => guard(value) && passes(checks, value, ast)
}

const allOf = (parts: ReadonlyArray<SchemaAST.AST>): ReadonlyArray<Guard> | undefined => {
  const guards = parts.map(identityGuard)
  return guards.every((guard) => guard !== undefined) ? guards : undefined
}

const shapeOf = (ast: SchemaAST.AST): Guard | undefined => {
  switch (ast._tag) {
    case "String":
      return (value) => typeof value === "string"
    case "Number":
      return (value) => typeof value === "number"
    case "Boolean":
      return (value) => typeof value === "boolean"
    case "Null":
      return (value) => value === null
    case "Literal": {
      const { literal } = ast
      return (value) => value === literal
    }
    case "Union": {
      const members = allOf(ast.types)
      return (
        members &&
        ((value) => {
          for (let i = 0; i < members.length; i++) if (members[i]!(value)) return true
          return false
        })
      )
    }
    case "Arrays": {
      const [item, ...more] = ast.rest
      const guard = item === undefined ? undefined : identityGuard(item)
      if (guard === undefined || more.length > 0 || ast.elements.length > 0) return undefined
      return (value) => {
        if (!Array.isArray(value)) return false
        for (let i = 0; i < value.length; i++) if (!guard(value[i])) return false
        return true
      }
    }
    case "Objects": {
      const names = ast.propertySignatures.map(({ name }) => name)
      const guards = allOf(ast.propertySignatures.map(({ type }) => type))
      if (guards === undefined || ast.indexSignatures.length > 0) return undefined
      return (value) => {
        if (typeof value !== "object" || value === null || Object.getPrototypeOf(value) !== Object.prototype)
          return false
        let at = 0
        for (const name in value) {
          if (name !== names[at] || !guards[at]!((value as Record<string, unknown>)[name])) return false
          at++
        }
        return at === names.length
      }
    }
    default:
      return undefined
  }
}
