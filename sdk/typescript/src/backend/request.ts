import { retryAfterMs } from '../retry-after.ts'
import { LicensingApiError } from './errors.ts'
import type { Method } from './operations.ts'

export interface BackendOptions {
  /** Address of the licensing service: `https://licensing.example.com`. */
  readonly baseUrl: string
  /** An API key with the scopes that the calls need, `lsk_…`: never in a browser or a product. */
  readonly apiKey: string
  /** Sends requests. Default: the global `fetch`. */
  readonly fetch?: typeof fetch | undefined
  /** Timeout of each try in milliseconds. Default: 60,000. */
  readonly timeoutMs?: number | undefined
  /** Most retries of a call that may be retried. Default: 3. */
  readonly retries?: number | undefined
}

/** A request without the types of its operation. */
export interface PlainRequest {
  readonly path?: object | undefined
  readonly query?: object | undefined
  readonly body?: unknown
  readonly idempotencyKey?: string | undefined
  readonly signal?: AbortSignal | undefined
}

type Outcome =
  { readonly answer: unknown } | { readonly error: LicensingApiError; readonly waitMs: number | null }

const FIRST_WAIT_MS = 250
const MAX_WAIT_MS = 60_000

/**
 * Sends a request, and retries it if that is safe: always after a rate limit, and after a failure only if a repetition
 * has no second effect.
 */
export async function send(
  options: BackendOptions,
  method: Method,
  template: string,
  given: PlainRequest,
): Promise<unknown> {
  const url = `${options.baseUrl.replace(/\/+$/, '')}${fill(template, given)}`
  // The same key for all tries, so that a repetition has no second effect.
  const request =
    method === 'post' ? { ...given, idempotencyKey: given.idempotencyKey ?? newIdempotencyKey() } : given
  for (let tries = 0; ; tries++) {
    const outcome = await attempt(options, method, url, request)
    if ('answer' in outcome) return outcome.answer
    const { error, waitMs } = outcome
    if (tries >= (options.retries ?? 3) || !mayRepeat(error, method, request)) throw error
    await pause(waitMs ?? FIRST_WAIT_MS * 2 ** tries * (1 + Math.random()), request.signal)
  }
}

/** Whether the call may be repeated. A DELETE may not: a second DELETE of an endpoint is refused with a conflict. */
function mayRepeat({ status, code }: LicensingApiError, method: Method, request: PlainRequest): boolean {
  if (status === 429) return true
  const isHarmless = method === 'get' || method === 'put' || request.idempotencyKey !== undefined
  return isHarmless && (status === 503 || code === 'unreachable' || code === 'timeout')
}

async function attempt(
  { apiKey, fetch: given, timeoutMs = 60_000 }: BackendOptions,
  method: Method,
  url: string,
  { body, idempotencyKey, signal }: PlainRequest,
): Promise<Outcome> {
  const headers: Record<string, string> = { accept: 'application/json', authorization: `Bearer ${apiKey}` }
  if (body !== undefined) headers['content-type'] = 'application/json'
  if (idempotencyKey !== undefined) headers['idempotency-key'] = idempotencyKey
  const timeout = AbortSignal.timeout(timeoutMs)
  try {
    const response = await (given ?? fetch)(url, {
      method: method.toUpperCase(),
      headers,
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
      redirect: 'manual',
    })
    return readAnswer(response, await response.text())
  } catch (cause) {
    if (signal?.aborted) throw cause
    const code = timeout.aborted ? 'timeout' : 'unreachable'
    const detail = cause instanceof Error ? cause.message : code
    return { error: new LicensingApiError(code, 0, { detail }, cause), waitMs: null }
  }
}

function readAnswer(response: Response, text: string): Outcome {
  const { status, headers } = response
  const body = parse(text)
  if (status === 204) return { answer: undefined }
  if (response.ok && body !== undefined) return { answer: body }
  const isProblem =
    typeof body === 'object' && body !== null && 'code' in body && typeof body.code === 'string'
  const problem = isProblem ? (body as Record<string, unknown>) : { detail: `status ${status}` }
  const code = isProblem ? String(problem['code']) : 'unexpected_answer'
  const asked = retryAfterMs(headers)
  const waitMs = asked === null ? null : Math.min(asked, MAX_WAIT_MS)
  return { error: new LicensingApiError(code, status, problem), waitMs }
}

function fill(template: string, { path = {}, query = {} }: PlainRequest): string {
  const values = new Map<string, unknown>(Object.entries(path))
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(String(values.get(name))),
  )
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    if (typeof value === 'object' && value !== null) {
      for (const [member, entry] of Object.entries(value)) search.set(`${name}[${member}]`, String(entry))
    } else if (value !== undefined && value !== null) search.set(name, String(value))
  }
  return search.size === 0 ? filled : `${filled}?${search.toString()}`
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(finish, ms)
    const stop = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    function finish() {
      signal?.removeEventListener('abort', stop)
      resolve()
    }
    signal?.addEventListener('abort', stop, { once: true })
  })
}

/**
 * A new `Idempotency-Key`. Store it with the order or job before making the call, and use it for every repetition. An id of
 * your own that belongs to exactly one licence, such as the id of an order, works as well.
 *
 * @example order.idempotencyKey ??= newIdempotencyKey()
 */
export function newIdempotencyKey(): string {
  return crypto.randomUUID()
}
