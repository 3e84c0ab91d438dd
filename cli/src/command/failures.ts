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
  /** Lines after the message: a list. */
  readonly list: readonly string[]

  constructor(
    code: string,
    message: string,
    details: Readonly<Record<string, unknown>> = {},
    list: readonly string[] = [],
  ) {
    super(message)
    this.code = code
    this.details = details
    this.list = list
  }
}

/** What made a command stop on its way (`cause`), and how far it had come: exit code 1. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  /** For a program that reads the refusal, beside what the cause says. */
  readonly details: Readonly<Record<string, unknown>>
  readonly progress: readonly string[]

  constructor(cause: unknown, progress: readonly string[], details: Readonly<Record<string, unknown>>) {
    super(progress.join('\n'), { cause })
    this.details = details
    this.progress = progress
  }
}
