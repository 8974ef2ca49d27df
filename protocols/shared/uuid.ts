/** Identifiers in the canonical text form of RFC 9562, of any version and in any case. */
const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
export const isUuid = (text: string): boolean => uuid.test(text)
