/** Holds the document keys that clients have presented, while their jobs run. They are in memory only, never
 *  on disk: a job without keys waits until its client presents the document key again. Source:
 *  docs/spec/documents.md, section 9.5. */
import type { DocumentKeys } from "./sealed.ts"

export class DocumentKeyring {
  private readonly keys = new Map<string, DocumentKeys>()

  /** Adds the keys of a document. Keys that are present already stay: they are equal, and the work is using
   *  them. */
  put(id: string, keys: DocumentKeys): void {
    if (!this.keys.has(id)) this.keys.set(id, keys)
  }

  get(id: string): DocumentKeys | undefined {
    return this.keys.get(id)
  }

  /** Forgets the keys, and overwrites them in memory. */
  drop(id: string): void {
    this.keys.get(id)?.forget()
    this.keys.delete(id)
  }
}
