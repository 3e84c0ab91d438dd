import type { Problem } from './state.ts'

const TOKEN_OPERATIONS: ReadonlySet<Problem['operation']> = new Set([
  'activate',
  'activate_offline',
  'refresh',
  'migrate',
  'start_trial',
  'release',
  'deactivate',
])

/** The most recent problem, unless a later success has ended it. */
export class LatestProblem {
  #value: Problem | null = null

  get value(): Problem | null {
    return this.#value
  }

  /** Records the problem of an operation at `time`; null if the operation succeeded. */
  record(
    operation: Problem['operation'],
    problem: { code: string; detail: string } | null,
    time: number,
  ): void {
    if (problem) this.#value = { operation, ...problem, at: new Date(time).toISOString() }
    else if (this.#value?.operation === operation) this.#value = null
  }

  /** Forgets problems of token requests, because a token was received or the place was freed. */
  clearTokenProblem(): void {
    if (this.#value && TOKEN_OPERATIONS.has(this.#value.operation)) this.#value = null
  }
}
