/** Encoders of style lists. Source: docs/spec/translation.md, section 10.1. */
interface Instruction {
  readonly id: string
  readonly label: string
  readonly prompt: string
  readonly sourceLanguage: string
}

interface StyleList {
  readonly styleId: string
  readonly name: string
  readonly language: string
  readonly version: number
  readonly createdMs: number
  readonly updatedMs: number
  readonly rules: object
  readonly instructions: ReadonlyArray<Instruction>
}

const time = (atMs: number): string => new Date(atMs).toISOString()

export const instructionJson = ({ id, label, prompt, sourceLanguage }: Instruction) => ({
  id,
  label,
  prompt,
  source_language: sourceLanguage
})

export const styleJson = (
  { styleId, name, language, version, createdMs, updatedMs, rules, instructions }: StyleList,
  detailed: boolean
) => ({
  style_id: styleId,
  name,
  language,
  version,
  creation_time: time(createdMs),
  updated_time: time(updatedMs),
  ...(detailed ? { configured_rules: rules, custom_instructions: instructions.map(instructionJson) } : {})
})
