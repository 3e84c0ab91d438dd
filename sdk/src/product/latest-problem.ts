import type { Problem } from './state.ts'

const ABOUT_TOKENS: ReadonlySet<Problem['operation']> = new Set([
  'activate',
  'activate_offline',
  'refresh',
  'migrate',
  'start_trial',
  'release',
  'deactivate',
])

/** The most recent thing that went wrong and has not gone right since. */
export class LatestProblem {
  #value: Problem | null = null

  get value(): Problem | null {
    return this.#value
  }

  /** Notes what went wrong at `time`; null when the operation went right. */
  note(
    operation: Problem['operation'],
    problem: { code: string; detail: string } | null,
    time: number,
  ): void {
    if (problem) this.#value = { operation, ...problem, at: new Date(time).toISOString() }
    else if (this.#value?.operation === operation) this.#value = null
  }

  /** The token question is settled: a token came, or the place was freed. */
  forgetThoseAboutTokens(): void {
    if (this.#value && ABOUT_TOKENS.has(this.#value.operation)) this.#value = null
  }
}
