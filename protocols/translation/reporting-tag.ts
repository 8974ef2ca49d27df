/** The header X-DeepL-Reporting-Tag, under which an account wants its usage counted. A tag that is empty
 *  after trimming counts as absent. A header sent twice is joined with a blank, and is refused like any other
 *  tag with one.
 *  Source: docs/spec/translation.md, section 15.7. */
import type { Refusal } from "./problems.ts"

export const readReportingTag = (header: string | undefined): string | undefined | Refusal => {
  const tag = header?.trim().toLowerCase() ?? ""
  if (tag === "") return undefined
  return /^[\x21-\x7E]{1,100}$/.test(tag) ? tag : { _tag: "Invalid", name: "X-DeepL-Reporting-Tag" }
}
