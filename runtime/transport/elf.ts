/** Takes from a shared object of ELF (64 bits, little endian) what binds it to a C library that is too new.
 *  Programs compiled against glibc 2.38 call strtol as __isoc23_strtol, whose one addition is to read 0b
 *  numbers. Guarantee: a file in which anything else is bound to that version is refused, and of any other
 *  only the named symbols' entries, their versions and one flag change. Source: gABI, "Symbol Table"; LSB,
 *  "Symbol Versioning". */

export interface Rebinding {
  /** The machine that the file must be for (e_machine). */
  readonly machine: number
  readonly library: string
  /** The version that the library may lack. */
  readonly from: string
  /** The version at which the library has always had the symbols under their plain names. */
  readonly to: string
  /** Stands before each symbol's plain name. */
  readonly prefix: string
  /** Every symbol that is bound to `from`, by its plain name, in the order of names. */
  readonly symbols: ReadonlyArray<string>
}

const sharedObject = 3
const symbolTable = 11
const versionNeeds = 0x6ffffffe
const symbolVersions = 0x6fffffff
const symbolBytes = 24

/** Says that the library may lack the version (VER_FLG_WEAK). */
const weak = 2

interface Section {
  readonly type: number
  readonly offset: number
  readonly size: number
  readonly link: number
  readonly info: number
}

interface Version {
  readonly library: string
  readonly name: string
  readonly at: number
  readonly index: number
}

class SharedObject {
  private readonly bytes: Buffer
  private readonly sections: ReadonlyArray<Section>

  constructor(bytes: Buffer, machine: number) {
    this.bytes = bytes
    if (bytes.length < 64 || bytes.toString("latin1", 0, 6) !== "\x7fELF\x02\x01")
      throw new Error("it is no ELF file of 64 bits, little endian")
    if (bytes.readUInt16LE(16) !== sharedObject) throw new Error("it is no shared object")
    if (bytes.readUInt16LE(18) !== machine) throw new Error("it is for another machine")
    const first = Number(bytes.readBigUInt64LE(40))
    const size = bytes.readUInt16LE(58)
    this.sections = Array.from({ length: bytes.readUInt16LE(60) }, (_, index) => {
      const at = first + index * size
      return {
        type: bytes.readUInt32LE(at + 4),
        offset: Number(bytes.readBigUInt64LE(at + 24)),
        size: Number(bytes.readBigUInt64LE(at + 32)),
        link: bytes.readUInt32LE(at + 40),
        info: bytes.readUInt32LE(at + 44)
      }
    })
  }

  section(type: number): Section {
    const [section, ...others] = this.sections.filter((each) => each.type === type)
    if (section === undefined || others.length > 0)
      throw new Error(`it has not one section of type ${type.toString(16)}`)
    return section
  }

  text(strings: Section, offset: number): string {
    const from = strings.offset + offset
    return this.bytes.toString("latin1", from, this.bytes.indexOf(0, from))
  }

  strings(of: Section): Section {
    return this.sections[of.link]!
  }

  /** Returns each version that the file needs of a library. */
  needs(): ReadonlyArray<Version> {
    const section = this.section(versionNeeds)
    const strings = this.strings(section)
    const versions: Array<Version> = []
    let need = section.offset
    for (let libraries = section.info; libraries > 0; libraries--) {
      const library = this.text(strings, this.bytes.readUInt32LE(need + 4))
      let at = need + this.bytes.readUInt32LE(need + 8)
      for (let left = this.bytes.readUInt16LE(need + 2); left > 0; left--) {
        const name = this.text(strings, this.bytes.readUInt32LE(at + 8))
        versions.push({ library, name, at, index: this.bytes.readUInt16LE(at + 6) })
        at += this.bytes.readUInt32LE(at + 12)
      }
      need += this.bytes.readUInt32LE(need + 12)
    }
    return versions
  }
}

const oneOf = (versions: ReadonlyArray<Version>, library: string, name: string): Version => {
  const [version, ...others] = versions.filter((each) => each.name === name && each.library === library)
  if (version === undefined || others.length > 0) throw new Error(`it does not need ${name} of ${library}`)
  return version
}

/** Returns a copy of the file in which the symbols are bound to `to` under their plain names; throws where
 *  the file is not what the rebinding says. */
export const rebound = (file: Uint8Array, of: Rebinding): Buffer => {
  const bytes = Buffer.from(file)
  const object = new SharedObject(bytes, of.machine)
  const versions = object.needs()
  const from = oneOf(versions, of.library, of.from)
  const to = oneOf(versions, of.library, of.to)
  const symbols = object.section(symbolTable)
  const strings = object.strings(symbols)
  const { offset: indexes } = object.section(symbolVersions)
  const bound: Array<string> = []
  for (let index = 0; index < symbols.size / symbolBytes; index++) {
    const at = symbols.offset + index * symbolBytes
    if ((bytes.readUInt16LE(indexes + 2 * index) & 0x7fff) !== from.index) continue
    const name = bytes.readUInt32LE(at)
    bound.push(object.text(strings, name))
    // A plain name is the end of the long one, so that no text has to be added.
    bytes.writeUInt32LE(name + of.prefix.length, at)
    bytes.writeUInt16LE(to.index, indexes + 2 * index)
  }
  const found = bound.sort().join(", ")
  if (found !== of.symbols.map((name) => of.prefix + name).join(", "))
    throw new Error(`other symbols are bound to ${of.from}: ${found}`)
  bytes.writeUInt16LE(bytes.readUInt16LE(from.at + 4) | weak, from.at + 4)
  return bytes
}
