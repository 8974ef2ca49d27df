/** A client that lives through its server's death: a call that got no answer resolves with undefined. */

export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined when it is none. */
  readonly body: any
}

export interface Call {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** What is no string is sent as JSON, forms as they are. */
  readonly body?: string | object
}

const parsed = (text: string): any => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const bodyOf = (body: string | object): readonly [type: string, text: string] => {
  if (typeof body === "string") return ["text/plain", body]
  return body instanceof URLSearchParams
    ? ["application/x-www-form-urlencoded", body.toString()]
    : ["application/json", JSON.stringify(body)]
}

export class Caller {
  readonly base: string
  /** How many answers came. */
  answered = 0

  constructor(base: string) {
    this.base = base
  }

  async call(path: string, { method, headers = {}, body }: Call = {}): Promise<Reply | undefined> {
    const [type, sent] = body === undefined ? [] : bodyOf(body)
    try {
      const response = await fetch(new URL(path, this.base), {
        method: method ?? (body === undefined ? "GET" : "POST"),
        redirect: "manual",
        headers: { ...(type === undefined ? {} : { "Content-Type": type }), ...headers },
        ...(sent === undefined ? {} : { body: sent })
      })
      const text = await response.text()
      this.answered++
      return { status: response.status, headers: response.headers, text, body: parsed(text) }
    } catch {
      return undefined
    }
  }

  /** As `call`, but somebody must answer: it asks again while the program says that it is busy. */
  async answer(path: string, call: Call = {}): Promise<Reply> {
    for (let turns = 0; ; turns++) {
      const reply = await this.call(path, call)
      if (reply !== undefined && reply.status !== 429 && reply.status !== 503) return reply
      if (turns > 600) throw new Error(`${path}: ${reply === undefined ? "no answer" : reply.text}`)
      await new Promise((resolve) => {
        setTimeout(resolve, 100)
      })
    }
  }
}
