/** The one line that a server candidate prints when it listens. */
export const announce = (port: number, key = ""): void => console.log(`${port} ${key}`)
