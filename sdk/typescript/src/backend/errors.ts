/** One field that was refused. */
export interface FieldProblem {
  /** A JSON pointer into the body. */
  readonly pointer: string
  readonly message: string
}

/**
 * A call that was refused or failed. `code` is the service's (`conflict`, `not_found`, `validation_failed`, …: see
 * `GET /errors/{code}`), or `unreachable`, `timeout` or `unexpected_answer` if there was no valid answer.
 */
export class LicensingApiError extends Error {
  override readonly name = 'LicensingApiError'
  readonly code: string
  /** The status of the answer; 0 if there was none. */
  readonly status: number
  /** Id of the request in the service's logs. */
  readonly requestId: string | null
  /** The invalid fields, for `validation_failed`. */
  readonly errors: readonly FieldProblem[]
  /** The whole answer: a `conflict` also says what it found (`current`) and what is `allowed`. */
  readonly problem: Readonly<Record<string, unknown>>

  constructor(code: string, status: number, problem: Readonly<Record<string, unknown>>, cause?: unknown) {
    super(typeof problem['detail'] === 'string' ? problem['detail'] : code, { cause })
    this.code = code
    this.status = status
    this.problem = problem
    this.requestId = typeof problem['request_id'] === 'string' ? problem['request_id'] : null
    this.errors = Array.isArray(problem['errors']) ? (problem['errors'] as FieldProblem[]) : []
  }
}
