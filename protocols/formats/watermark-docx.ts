/** Adds a line to the headers of a Word document that says who translated it: in the existing headers, or in
 *  one new part. Guarantee: a second call changes nothing.
 *  Source: docs/spec/documents.md, section 6.2. */
import { contentTypesOf } from "./office-package.ts"
import { decodeXml, encodeXml } from "./encoding.ts"
import { escapeXml } from "./xml-scan.ts"
import type { Zip } from "./zip.ts"

const id = "troupeWatermark"
const relationships = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
const headerType = "application/vnd.openxmlformats-officedocument.wordprocessingml.header+xml"

const prefixOf = (text: string, root: string): string =>
  new RegExp(`<((?:[\\w.-]+:)?)${root}[\\s>]`).exec(text)?.[1] ?? "w:"

const paragraph = (w: string, label: string): string =>
  `<${w}p><${w}pPr><${w}jc ${w}val="center"/></${w}pPr><${w}bookmarkStart ${w}id="990199" ${w}name="${id}"/><${w}r><${w}rPr><${w}color ${w}val="BFBFBF"/><${w}sz ${w}val="16"/></${w}rPr><${w}t xml:space="preserve">${escapeXml(label)}</${w}t></${w}r><${w}bookmarkEnd ${w}id="990199"/></${w}p>`

export const watermarked = (zip: Zip, changed: Map<string, Buffer>, label: string): Buffer => {
  const types = contentTypesOf(zip)!
  const text = (part: string) => decodeXml(changed.get(part) ?? zip.part(part)!)
  const put = (part: string, change: (xml: string) => string): void => {
    const file = text(part)
    const edited = change(file.text)
    if (edited !== file.text) changed.set(part, encodeXml(edited, file))
  }
  const headers = [...types]
    .filter(([part, type]) => type === headerType && zip.has(part))
    .map(([part]) => part)
  if (headers.length > 0) {
    for (const part of headers)
      put(part, (xml) => {
        const at = xml.search(/<\/(?:[\w.-]+:)?hdr\s*>\s*$/)
        return at < 0 || xml.includes(id)
          ? xml
          : xml.slice(0, at) + paragraph(prefixOf(xml, "hdr"), label) + xml.slice(at)
      })
    return zip.with(changed)
  }
  const [main] = [...types].find(
    ([part, type]) => /wordprocessingml\.(?:document|template)\.main\+xml$/.test(type) && zip.has(part)
  )!
  const folder = main.slice(0, main.lastIndexOf("/") + 1)
  const links = `${folder}_rels/${main.slice(folder.length)}.rels`
  const part = `${folder}${id}.xml`
  const added = new Map<string, Buffer>()
  const link = `<Relationship Id="${id}" Type="${relationships}/header" Target="${id}.xml"/>`
  const w = prefixOf(text(main).text, "document")
  const address =
    new RegExp(`xmlns:${w.slice(0, -1)}="([^"]*)"`).exec(text(main).text)?.[1] ??
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
  const reference = `<${w}headerReference xmlns:troupe="${relationships}" ${w}type="default" troupe:id="${id}"/>`
  put("[Content_Types].xml", (xml) =>
    xml.replace(
      /<\/((?:[\w.-]+:)?)Types\s*>/,
      `<$1Override PartName="/${part}" ContentType="${headerType}"/>$&`
    )
  )
  if (zip.has(links))
    put(links, (xml) =>
      xml.replace(
        /<\/(?:[\w.-]+:)?Relationships\s*>|<((?:[\w.-]+:)?Relationships)([^>]*)\/>/,
        (end, name?: string, attributes?: string) =>
          name === undefined ? link + end : `<${name}${attributes!}>${link}</${name}>`
      )
    )
  else
    added.set(
      links,
      Buffer.from(
        `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">${link}</Relationships>`
      )
    )
  put(main, (xml) => {
    const sections = new RegExp(`<${w}sectPr(?:\\s[^>]*)?(/?)>`, "g")
    if (!sections.test(xml))
      return xml.replace(new RegExp(`</${w}body>`), `<${w}sectPr>${reference}</${w}sectPr>$&`)
    return xml.replace(sections, (tag, alone: string) =>
      alone === "" ? tag + reference : `${tag.slice(0, -2)}>${reference}</${w}sectPr>`
    )
  })
  added.set(
    part,
    Buffer.from(
      `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<${w}hdr xmlns:${w.slice(0, -1)}="${address}">${paragraph(w, label)}</${w}hdr>`
    )
  )
  return zip.with(changed, added)
}
