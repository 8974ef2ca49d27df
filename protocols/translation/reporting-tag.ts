/** The header X-DeepL-Reporting-Tag: under which name an account wants its usage counted. "" after trimming is
 *  absent. Sent twice it holds a blank, and is refused like any other.
 *  Source: docs/spec/translation.md, section 15.7. */
import type { Refusal } from "./problems.ts"

export const readReportingTag = (header: string | undefined): string | undefined | Refusal => {
  const tag = header?.trim().toLowerCase() ?? ""
  if (tag === "") return undefined
  return /^[\x21-\x7E]{1,100}$/.test(tag) ? tag : { _tag: "Invalid", name: "X-DeepL-Reporting-Tag" }
}
