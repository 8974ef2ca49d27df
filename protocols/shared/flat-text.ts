/** Copies a well-formed text that is kept for longer than the request it came with. V8 keeps the whole text
 *  alive of which another is a part, so that a name of twenty characters may hold a body of 64 KiB. */
export const flatText = (text: string): string => Buffer.from(text).toString()
