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
