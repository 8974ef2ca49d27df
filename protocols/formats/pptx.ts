/** PowerPoint: slides in order, notes, comments, charts and diagrams are translated; layouts and masters
 *  only where a text is not the prompt of a placeholder.
 *  Source: docs/spec/documents.md, section 5.2. */
import type { Format } from "./document.ts"
import { contentTypesOf, inspectOffice, PackageReading } from "./office-package.ts"
import { readOfficeText } from "./office-paragraphs.ts"
import { openPackage } from "./zip.ts"

const main = /presentationml\.(?:presentation|template|slideshow)\.main\+xml$/

const order = [
  /presentationml\.slide\+xml$/,
  /presentationml\.notesSlide\+xml$/,
  /presentationml\.comments\+xml$/,
  /drawingml\.chart\+xml$/,
  /drawingml\.diagramData\+xml$|drawingml\.diagramDrawing\+xml$/,
  /presentationml\.slideLayout\+xml$/,
  /presentationml\.slideMaster\+xml$/
]

const prompts = /presentationml\.slide(?:Layout|Master)\+xml$/
const placeholder = /<(?:\w+:)?ph[\s/>]/
const numberOf = (name: string): number => Number(/(\d+)\.xml$/.exec(name)?.[1] ?? 0)

/** Returns whether the shape is a placeholder, which is so when its properties contain `ph`. */
const isPrompt = (name: string, text: string, from: number): boolean => {
  if (name !== "p:sp") return false
  const end = text.indexOf("nvSpPr>", text.indexOf("nvSpPr", from) + 7)
  return placeholder.test(text.slice(from, end < 0 ? from + 4_000 : end))
}

export const pptx: Format = {
  id: "pptx",
  extensions: ["pptx"],
  mime: "application/vnd.openxmlformats-officedocument.presentationml.presentation",
  inspect: (bytes) => inspectOffice(bytes, main, "not a PowerPoint document"),
  extract: (bytes, options) => {
    const reading = new PackageReading(openPackage(bytes, "not a PowerPoint document"), options)
    const types = [...contentTypesOf(reading.zip)!]
    for (const kind of order)
      for (const [part, type] of types
        .filter(([, type]) => kind.test(type))
        .sort(([a], [b]) => numberOf(a) - numberOf(b))) {
        reading.part(part, (text, segments) =>
          readOfficeText(text, segments, {
            part,
            altTexts: true,
            cached: true,
            ...(prompts.test(type) ? { leaves: isPrompt } : {})
          })
        )
      }
    return reading.done()
  }
}
