import { retryAfterMs } from '../retry-after.ts'
import type { FailureReason } from './reasons.ts'
import { isObject, isString } from './shape.ts'

/** The outcome of a request, which never throws. */
export type Answer = Success | Refusal | Failure

interface Success {
  readonly kind: 'success'
  readonly status: number
  /** The JSON object; undefined if there is none. */
  readonly body: Readonly<Record<string, unknown>> | undefined
  readonly etag: string | null
}

/** The service refused, in its error format. */
interface Refusal {
  readonly kind: 'refusal'
  readonly status: number
  readonly code: string
  readonly reason: string | null
  readonly detail: string
}

/** No answer, or not a valid one. */
export interface Failure {
  readonly kind: 'failure'
  readonly code: FailureReason
  readonly detail: string
  readonly retryAfterMs: number | null
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'DELETE'
  /** Begins with `/v1`. */
  readonly path: string
  readonly body?: Readonly<Record<string, unknown>>
  /** The token that authorises the call. */
  readonly token?: string
  readonly ifNoneMatch?: string | null
}

export type Ask = (call: Call, signal: AbortSignal) => Promise<Answer>

/** The longest `Retry-After` that is followed, so that one absurd answer does not lock a product out. */
const MAX_RETRY_AFTER_MS = 3_600_000

/** Creates the function that makes all requests. */
export function connect(baseUrl: string, send: typeof fetch): Ask {
  // An invalid address must not stop the start of a product: it counts as unreachable.
  const base = `${baseUrl}/`.replace(/\/+$/, '')
  return async ({ method, path, body, token, ifNoneMatch }, signal) => {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (body) headers['content-type'] = 'application/json'
    if (token !== undefined) headers['authorization'] = `Bearer ${token}`
    if (ifNoneMatch) headers['if-none-match'] = ifNoneMatch
    // The service never redirects. A redirect comes from the login page of a network, for example.
    const init = {
      method,
      headers,
      body: body ? JSON.stringify(body) : null,
      signal,
      redirect: 'manual',
    } as const
    try {
      const exchange = async () => readAnswer(await send(`${base}${path}`, init))
      return await Promise.race([exchange(), rejectWhenAborted(signal)])
    } catch (error) {
      return signal.aborted
        ? failure('timeout', `${path} was not answered in time`)
        : failure('unreachable', messageOf(error))
    }
  }
}

/** Ends the call even if a custom fetch ignores its signal. */
function rejectWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = () => reject(new Error('aborted'))
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

async function readAnswer(response: Response): Promise<Answer> {
  const { status, headers } = response
  const text = await readText(response)
  if (text === null) return failure('unexpected_answer', 'the answer is too long')
  const body = parse(text)
  const { code, reason } = body ?? {}
  const detail = isString(body?.['detail']) ? body['detail'] : `status ${status}`
  if (status === 429 || status >= 500) {
    const wait = retryAfterMs(headers)
    const maxWait = wait === null ? null : Math.min(wait, MAX_RETRY_AFTER_MS)
    return failure(status === 429 ? 'rate_limited' : 'unavailable', detail, maxWait)
  }
  if (status === 204 || status === 304 || (status >= 200 && status < 300 && body)) {
    return { kind: 'success', status, body, etag: headers.get('etag') }
  }
  if (status >= 400 && isString(code)) {
    return { kind: 'refusal', status, code, reason: isString(reason) ? reason : null, detail }
  }
  return failure('unexpected_answer', detail)
}

/** A whole revocation list has about 1.3 MB. A longer answer is of another server, and would fill the memory. */
const MAX_ANSWER_BYTES = 2 * 1024 * 1024

/** The body of an answer; null if it is too long. */
async function readText(response: Response): Promise<string | null> {
  if (!response.body) return response.text()
  const decoder = new TextDecoder()
  let text = ''
  let length = 0
  const reader = response.body.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return text + decoder.decode()
    length += value.length
    text += decoder.decode(value, { stream: true })
    if (length > MAX_ANSWER_BYTES) return reader.cancel().then(() => null)
  }
}

/** The JSON object in a text. */
function parse(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const body: unknown = JSON.parse(text)
    return isObject(body) ? body : undefined
  } catch {
    return undefined
  }
}

/** An answer that could be read, but is not valid. */
export function unexpected(answer: Answer): Failure {
  if (answer.kind === 'failure') return answer
  const content = answer.kind === 'refusal' ? `${answer.code}: ${answer.detail}` : 'an unexpected body'
  return failure('unexpected_answer', `status ${answer.status}, ${content}`)
}

export function failure(code: FailureReason, detail: string, retryAfterMs: number | null = null): Failure {
  return { kind: 'failure', code, detail, retryAfterMs }
}
