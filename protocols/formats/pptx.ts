/** PowerPoint: slides in the order they are shown, notes, comments, charts, diagrams; of layouts and masters
 *  only what is no placeholder's prompt. Source: documents 5.2. */
import type { Format } from "./document.ts"
import { contentTypesOf, inspectOffice, PackageReading } from "./office-package.ts"
import { readOfficeText } from "./office-text.ts"
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

/** The shape's head holds `ph`. */
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
