import { retryAfterMs } from '../retry-after.ts'
import { isObject } from './shape.ts'
import type { FailureReason } from './reasons.ts'

/** The outcome of a call, which never throws. */
export type Answer =
  | {
      readonly kind: 'success'
      readonly status: number
      readonly body: unknown
      readonly etag: string | null
    }
  /** The service refused the call, in its error format. */
  | {
      readonly kind: 'refusal'
      readonly status: number
      readonly code: string
      readonly reason: string | null
      readonly detail: string
    }
  /** No answer, or not a valid one. */
  | {
      readonly kind: 'failure'
      readonly reason: FailureReason
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

/** Creates the function that makes all network calls. */
export function connect(baseUrl: string, send: typeof fetch): Ask {
  // An invalid address must not stop the start of a product: it counts as unreachable.
  const base = `${baseUrl}/`.replace(/\/+$/, '')
  return async (call, signal) => {
    const headers: Record<string, string> = { accept: 'application/json' }
    if (call.body) headers['content-type'] = 'application/json'
    if (call.token !== undefined) headers['authorization'] = `Bearer ${call.token}`
    if (call.ifNoneMatch) headers['if-none-match'] = call.ifNoneMatch
    const body = call.body ? JSON.stringify(call.body) : null
    try {
      const exchange = async () => {
        // The service never redirects. A redirect comes from the login page of a network, for example.
        const init = { method: call.method, headers, body, signal, redirect: 'manual' } as const
        const response = await send(`${base}${call.path}`, init)
        const text = await readText(response)
        return text === null
          ? failure('unexpected_answer', 'the answer is too long')
          : readAnswer(response, text)
      }
      return await Promise.race([exchange(), rejectWhenAborted(signal)])
    } catch (error) {
      return signal.aborted
        ? failure('timeout', `${call.path} was not answered in time`)
        : failure('unreachable', messageOf(error))
    }
  }
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

function readAnswer(response: Response, text: string): Answer {
  const { status } = response
  const body = parse(text)
  if (status === 429 || status >= 500) {
    const reason = status === 429 ? 'rate_limited' : 'unavailable'
    return failure(reason, detailOf(body, status), retryAfter(response.headers))
  }
  if (status === 204 || status === 304 || (status >= 200 && status < 300 && isObject(body))) {
    return { kind: 'success', status, body, etag: response.headers.get('etag') }
  }
  if (status >= 400 && isObject(body) && typeof body['code'] === 'string') {
    const reason = typeof body['reason'] === 'string' ? body['reason'] : null
    return { kind: 'refusal', status, code: body['code'], reason, detail: detailOf(body, status) }
  }
  return failure('unexpected_answer', detailOf(body, status))
}

/** An answer that could be read, but is not valid. */
export function unexpected(answer: Answer): Answer & { kind: 'failure' } {
  if (answer.kind === 'failure') return answer
  const content = answer.kind === 'refusal' ? `${answer.code}: ${answer.detail}` : 'an unexpected body'
  return failure('unexpected_answer', `status ${answer.status}, ${content}`)
}

export function failure(reason: FailureReason, detail: string, retryAfterMs: number | null = null) {
  return { kind: 'failure', reason, detail, retryAfterMs } as const
}

function retryAfter(headers: Headers): number | null {
  const ms = retryAfterMs(headers.get('retry-after'), Date.now(), headers.get('date'))
  return ms === null ? null : Math.min(ms, MAX_RETRY_AFTER_MS)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function detailOf(body: unknown, status: number): string {
  return isObject(body) && typeof body['detail'] === 'string' ? body['detail'] : `status ${status}`
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

/** Ends the call even if a custom fetch ignores its signal. */
function rejectWhenAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const abort = () => reject(new Error('aborted'))
    if (signal.aborted) abort()
    else signal.addEventListener('abort', abort, { once: true })
  })
}
