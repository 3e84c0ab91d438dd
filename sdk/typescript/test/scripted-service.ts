import type { ScriptedAnswer } from './vector.ts'

interface SeenRequest {
  readonly request: string
  readonly headers: Readonly<Record<string, string>>
  readonly json: unknown
}

/** A `fetch` that returns the answers of a vector in order, and records the requests. */
export class ScriptedService {
  #answers: readonly ScriptedAnswer[] = []
  #requests: SeenRequest[] = []

  script(answers: readonly ScriptedAnswer[]): void {
    this.#answers = answers
    this.#requests = []
  }

  get requests(): readonly SeenRequest[] {
    return this.#requests
  }

  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init)
    const { origin } = new URL(request.url)
    const text = await request.text()
    const answer = this.#answers[this.#requests.length]
    this.#requests.push({
      request: `${request.method} ${request.url.slice(origin.length)}`,
      headers: Object.fromEntries(request.headers),
      json: text === '' ? null : JSON.parse(text),
    })
    return respond(answer)
  }
}

function respond(answer: ScriptedAnswer | undefined): Response | Promise<Response> {
  if (!answer) throw new Error('nothing more was expected')
  const { response } = answer
  if ('fails' in response) {
    if (response.fails === 'never') return new Promise(() => {})
    throw new TypeError('fetch failed', { cause: new Error('getaddrinfo ENOTFOUND licensing.example.com') })
  }
  const { status, headers = {}, json, text } = response
  const body = json === undefined ? (text ?? null) : JSON.stringify(json)
  const contentType = json === undefined ? {} : { 'content-type': 'application/json' }
  return new Response(body, { status, headers: { ...contentType, ...headers } })
}
