/** Wrong use: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What this program refuses itself, before or after it asked the service: exit code 1. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: string
  /** More for a program that reads the refusal. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: string, message: string, details: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.code = code
    this.details = details
  }
}
