import { retryAfterMs } from '@licensing/formats/retry-after'
import type { Dispatcher } from 'undici'
import type { Connection } from './connection.ts'
import { SendFailure } from './failure.ts'

const maxBodyBytes = 65_536
// More than an excerpt, so that a cut multi-byte character at its end is recognised.
const keptBodyBytes = 1024 + 3
const maxInformationalAnswers = 8

const tooManyInformational = () =>
  new SendFailure(
    'protocol',
    `more than ${maxInformationalAnswers} informational (1xx) responses came before the answer`,
  )

/** `headers` are names and values in turn. */
export type Post = { headers: string[]; body: Buffer }

/**
 * One POST and its response on one connection. It ends once: with the end of the response, an error, a limit or `cut`. The
 * bytes that were received until then are kept.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly ended: Promise<void>
  /** A byte of a response was received. */
  isAnswered = false
  /** Null until the head of the final response is received. */
  status: number | null = null
  retryAfter: string | null = null
  /** The beginning of the body. */
  readonly kept: Buffer[] = []
  error: Error | null = null
  readonly #connection: Connection
  #bodyBytes = 0
  #informationalAnswers = 0
  #hasEnded = false
  readonly #resolve: () => void

  constructor(connection: Connection, { headers, body }: Post) {
    this.#connection = connection
    let resolveEnded = () => {}
    this.ended = new Promise((resolve) => (resolveEnded = resolve))
    this.#resolve = resolveEnded
    connection.client.dispatch(
      { method: 'POST', path: connection.target.path, headers, body, idempotent: false },
      this,
    )
  }

  /** Ends the exchange now. The connection cannot be reused. */
  cut(error: Error | null) {
    this.#finish(error)
    this.#connection.destroy()
  }

  /** Required by the interface. The exchange is cut through its connection, which exists before this call. */
  onRequestStart() {}

  onResponseStarted() {
    this.isAnswered = true
  }

  onResponseStart(
    _controller: unknown,
    statusCode: number,
    headers: Record<string, string | string[] | undefined>,
  ) {
    if (statusCode >= 200) {
      this.status = statusCode
      this.retryAfter = [headers['retry-after'] ?? []].flat()[0] ?? null
    } else if (++this.#informationalAnswers > maxInformationalAnswers) {
      this.cut(tooManyInformational())
    }
  }

  onResponseData(_controller: unknown, chunk: Buffer) {
    if (this.#bodyBytes < keptBodyBytes) this.kept.push(chunk.subarray(0, keptBodyBytes - this.#bodyBytes))
    this.#bodyBytes += chunk.length
    if (this.#bodyBytes > maxBodyBytes) this.cut(null)
  }

  onResponseEnd() {
    this.#finish(null)
  }

  onResponseError(_controller: unknown, error: Error) {
    this.#finish(error)
  }

  #finish(error: Error | null) {
    if (this.#hasEnded) return
    this.#hasEnded = true
    this.error = error
    this.#resolve()
  }
}

const maxBytes = 1024

/**
 * The beginning of a response body as text that PostgreSQL accepts: valid UTF-8 of at most 1 KiB without NULs. A TextDecoder
 * would take 25 µs, this takes one (measured).
 */
export function excerptOf(chunks: readonly Buffer[]): string | null {
  if (chunks.length === 0) return null
  const text = beginningOf(Buffer.concat(chunks)).toString('utf8').replaceAll('\0', '')
  // Replacement characters are longer than the bytes that they replace.
  return Buffer.byteLength(text) <= maxBytes ? text : beginningOf(Buffer.from(text)).toString('utf8')
}

/** At most `maxBytes`, without a partial character at the end. */
function beginningOf(bytes: Buffer): Buffer {
  if (bytes.length <= maxBytes) return bytes
  const isContinuation = (at: number) => (bytes[at]! & 0xc0) === 0x80
  let end = maxBytes
  while (end > maxBytes - 3 && isContinuation(end)) end -= 1
  return bytes.subarray(0, end)
}

const maxRetryAfterSeconds = 86_400

/** The seconds after `nowMs` that a Retry-After header requests, at most a day; null if it has no valid value. */
export function retryAfterSeconds(header: string | null, nowMs: number): number | null {
  const ms = retryAfterMs(header, nowMs)
  return ms === null ? null : Math.min(Math.ceil(ms / 1000), maxRetryAfterSeconds)
}
