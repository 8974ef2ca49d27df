/** Sound that a recognizer takes for speech: a tone of 1.1 s every 2 s, mono, 16 kHz. */

export const spoken = (seconds: number): Buffer =>
  Buffer.from(
    Int16Array.from({ length: 16_000 * seconds }, (_, i) =>
      (i / 16_000) % 2 < 1.1 ? Math.round(9_000 * Math.sin(i / 6)) : 0
    ).buffer
  )
const wav = (pcm: Buffer): Uint8Array<ArrayBuffer> => {
  const bytes = Buffer.alloc(44 + pcm.byteLength)
  bytes.write("RIFF")
  bytes.writeUInt32LE(36 + pcm.byteLength, 4)
  bytes.write("WAVEfmt ", 8)
  for (const [at, value] of [
    [16, 16],
    [24, 16_000],
    [28, 32_000]
  ] as const)
    bytes.writeUInt32LE(value, at)
  for (const [at, value] of [
    [20, 1],
    [22, 1],
    [32, 2],
    [34, 16]
  ] as const)
    bytes.writeUInt16LE(value, at)
  bytes.write("data", 36)
  bytes.writeUInt32LE(pcm.byteLength, 40)
  bytes.set(pcm, 44)
  return new Uint8Array(bytes)
}
/** The sound of a voice job of the sample. */
export const soundOf = (seconds: number): Uint8Array<ArrayBuffer> => wav(spoken(seconds))
