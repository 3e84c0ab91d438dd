/** A browser without scripts: it keeps cookies of each origin and shows where it is sent. */
export class Browser {
  readonly #cookies = new Map<string, Map<string, string>>()

  /** Requests a page, without following a redirect. */
  async open(url: string | URL, form?: Record<string, string>, headers: Record<string, string> = {}) {
    const { origin } = new URL(url)
    const jar = this.#cookies.get(origin) ?? new Map<string, string>()
    this.#cookies.set(origin, jar)
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ')
    const response = await fetch(url, {
      redirect: 'manual',
      method: form ? 'POST' : 'GET',
      headers: { ...headers, cookie },
      ...(form && { body: new URLSearchParams(form) }),
    })
    for (const line of response.headers.getSetCookie()) {
      const [pair = ''] = line.split(';', 1)
      const at = pair.indexOf('=')
      if (/max-age=0\b/i.test(line)) jar.delete(pair.slice(0, at))
      else jar.set(pair.slice(0, at), pair.slice(at + 1))
    }
    const location = response.headers.get('location')
    return {
      url: new URL(url),
      status: response.status,
      headers: response.headers,
      text: await response.text(),
      /** Where the browser is sent. */
      next: location === null ? undefined : new URL(location, url),
    }
  }

  /** Follows redirects until one that `until` recognizes, or a page. */
  async follow(url: string | URL, until: (next: URL) => boolean) {
    let answer = await this.open(url)
    while (answer.next && !until(answer.next)) answer = await this.open(answer.next)
    return answer
  }
}
