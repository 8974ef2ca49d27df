/** Types of source.mjs, for the tests. */
import type ts from "typescript5"

export declare const participles: ReadonlySet<string>
export declare const parse: (file: string, text?: string) => ts.SourceFile
export declare const walk: (node: ts.Node, visit: (node: ts.Node) => void) => void
export declare const mayDeclareParticiple: (text: string) => boolean
export declare const participleDeclarations: (
  source: ts.SourceFile
) => ReadonlyArray<{ readonly name: string; readonly line: number }>
