/** Reads when a chunk of audio was meant to be sent, in ms: load-voice writes that time into the chunk's
 *  first samples. */
export const stampOf = (bytes: Uint8Array): number =>
  new DataView(bytes.buffer, bytes.byteOffset, 8).getFloat64(0, true)
