/** A-law and µ-law as tables, both ways. It is guaranteed that each sample is encoded by its nearest code.
 *  Source: ITU-T G.711. */

const alawOf = (byte: number): number => {
  const a = byte ^ 0x55
  const segment = (a & 0x70) >> 4
  let value = (a & 0x0f) << 4
  value = segment === 0 ? value + 8 : (value + 0x108) << (segment - 1)
  return (a & 0x80) !== 0 ? value : -value
}

const ulawOf = (byte: number): number => {
  const u = ~byte & 0xff
  const value = (((u & 0x0f) << 3) + 0x84) << ((u & 0x70) >> 4)
  return (u & 0x80) !== 0 ? 0x84 - value : value - 0x84
}

export const alaw = Int16Array.from({ length: 256 }, (_, byte) => alawOf(byte))
export const ulaw = Int16Array.from({ length: 256 }, (_, byte) => ulawOf(byte))

/** Makes a table of the nearest codes over the upper 13 bits of a sample. */
const encoderOf = (table: Int16Array): Uint8Array => {
  const sorted = [...table.entries()].sort((a, b) => a[1] - b[1])
  const codes = new Uint8Array(8_192)
  let next = 0
  for (let i = 0; i < codes.length; i++) {
    const sample = (i - 4_096) * 8 + 4
    while (
      next + 1 < sorted.length &&
      Math.abs(sorted[next + 1]![1] - sample) <= Math.abs(sorted[next]![1] - sample)
    )
      next++
    codes[i] = sorted[next]![0]
  }
  return codes
}

const codes = { alaw: encoderOf(alaw), ulaw: encoderOf(ulaw) }

/** Encodes sound, one byte per sample. */
export const companded = (pcm: Int16Array, law: "alaw" | "ulaw"): Uint8Array =>
  Uint8Array.from(pcm, (sample) => codes[law][(sample >> 3) + 4_096]!)
