/** A person's browser against a shipped program: cookies, the hidden fields of forms, redirects by hand. */

export interface Page {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Buffer
  readonly text: string
  /** Where the answer sends the browser, as a path or another server's URL; "" when it stays. */
  readonly location: string
}

const unescaped = (text: string): string =>
  text.replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&amp;", "&")

export class Browser {
  private readonly cookies = new Map<string, string>()
  private readonly base: string

  constructor(base: string) {
    this.base = base
  }

  async open(path: string, init: RequestInit = {}): Promise<Page> {
    const response = await fetch(new URL(path, this.base), {
      redirect: "manual",
      ...init,
      headers: {
        Accept: "text/html",
        Origin: this.base,
        ...(init.headers as Record<string, string>),
        Cookie: [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ")
      }
    })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(cookie)!
      this.cookies.set(name!, value!)
    }
    const bytes = Buffer.from(await response.arrayBuffer())
    const location = response.headers.get("location") ?? ""
    return { status: response.status, headers: response.headers, bytes, text: bytes.toString(), location }
  }

  /** Sends the form of the page with these fields filled in. */
  submit(page: Page, path: string, fields: Readonly<Record<string, string>>): Promise<Page> {
    const hidden = [...page.text.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)">/g)].map(
      ([, name, value]) => [name!, unescaped(value!)] as const
    )
    return this.open(path, {
      method: "POST",
      headers: { "Content-Type": "application/x-www-form-urlencoded" },
      body: new URLSearchParams({ ...Object.fromEntries(hidden), ...fields }).toString()
    })
  }
}
