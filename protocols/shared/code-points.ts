/** Counts the Unicode code points of a text, which is how the services bill and limit it. A lone surrogate
 *  counts as one. */
export const codePoints = (text: string): number => {
  let count = text.length
  for (let i = 0; i < text.length - 1; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0xd800 && code <= 0xdbff && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      count--
      i++
    }
  }
  return count
}
