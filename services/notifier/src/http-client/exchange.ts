import type { Dispatcher } from 'undici'
import type { Connection } from './connection.ts'
import { SendFailure } from './failure.ts'

const mostBodyBytes = 65_536
// More than an excerpt, so that it can be seen where its last character ends.
const keptBodyBytes = 1024 + 3
const mostInformationalAnswers = 8

const tooManyInformational = () =>
  new SendFailure(
    'protocol',
    `more than ${mostInformationalAnswers} informational (1xx) responses came before the answer`,
  )

/** `headers` are names and values in turn. */
export type Post = { headers: string[]; body: Buffer }

/**
 * One POST and its answer on one connection. It settles once, by the end of the answer, an error, a limit or `cut`;
 * what had come by then stands.
 */
export class Exchange implements Dispatcher.DispatchHandler {
  readonly settled: Promise<void>
  /** A byte of an answer came. */
  isAnswered = false
  /** Null until the head of the final answer has come. */
  status: number | null = null
  retryAfter: string | null = null
  /** The beginning of the body. */
  readonly kept: Buffer[] = []
  error: Error | null = null
  readonly #connection: Connection
  #bodyBytes = 0
  #informationalAnswers = 0
  #isSettled = false
  readonly #settle: () => void

  constructor(connection: Connection, { headers, body }: Post) {
    this.#connection = connection
    let settle = () => {}
    this.settled = new Promise((resolve) => (settle = resolve))
    this.#settle = settle
    connection.client.dispatch(
      { method: 'POST', path: connection.target.path, headers, body, idempotent: false },
      this,
    )
  }

  /** Ends it now; the connection, in the middle of something, is of no more use. */
  cut(error: Error | null) {
    this.#finish(error)
    this.#connection.destroy()
  }

  /** Required of a handler; the exchange is ended through its connection, which is there before this. */
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
    } else if (++this.#informationalAnswers > mostInformationalAnswers) {
      this.cut(tooManyInformational())
    }
  }

  onResponseData(_controller: unknown, chunk: Buffer) {
    if (this.#bodyBytes < keptBodyBytes) this.kept.push(chunk.subarray(0, keptBodyBytes - this.#bodyBytes))
    this.#bodyBytes += chunk.length
    if (this.#bodyBytes > mostBodyBytes) this.cut(null)
  }

  onResponseEnd() {
    this.#finish(null)
  }

  onResponseError(_controller: unknown, error: Error) {
    this.#finish(error)
  }

  #finish(error: Error | null) {
    if (this.#isSettled) return
    this.#isSettled = true
    this.error = error
    this.#settle()
  }
}

const mostBytes = 1024

/**
 * The beginning of an answer's body as text that PostgreSQL keeps: valid UTF-8 of at most 1 KiB without NULs.
 * Not by a TextDecoder, which takes 25 µs where this takes one (measured).
 */
export function excerptOf(chunks: readonly Buffer[]): string | null {
  if (chunks.length === 0) return null
  const text = beginningOf(Buffer.concat(chunks)).toString('utf8').replaceAll('\0', '')
  // Replacement characters are longer than the bytes they stand for.
  return Buffer.byteLength(text) <= mostBytes ? text : beginningOf(Buffer.from(text)).toString('utf8')
}

/** At most the limit, without a character that it would cut in two. */
function beginningOf(bytes: Buffer): Buffer {
  if (bytes.length <= mostBytes) return bytes
  const isContinuation = (at: number) => (bytes[at]! & 0xc0) === 0x80
  let end = mostBytes
  while (end > mostBytes - 3 && isContinuation(end)) end -= 1
  return bytes.subarray(0, end)
}

const longestRetryAfterSeconds = 86_400

/** Seconds from `nowMs` on that a Retry-After header asks for, at most a day; null when it says nothing usable. */
export function retryAfterSeconds(header: string | null, nowMs: number): number | null {
  if (header === null) return null
  const seconds = /^\d{1,10}$/.test(header) ? Number(header) : secondsUntil(header, nowMs)
  return Number.isNaN(seconds) ? null : Math.min(Math.max(Math.ceil(seconds), 0), longestRetryAfterSeconds)
}

const httpDate = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/

const secondsUntil = (header: string, nowMs: number) =>
  httpDate.test(header) ? (Date.parse(header) - nowMs) / 1000 : NaN
