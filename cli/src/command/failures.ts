/** Wrong use: exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A refusal by this program, before or after it called the service: exit code 1. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: string
  /** More fields, for programs that read the error. */
  readonly details: Readonly<Record<string, unknown>>
  /** Lines to print after the message. */
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

/** A command stopped before its end because of `cause`. The message says how much is done: exit code 1. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  /** Fields for programs that read the error, in addition to the fields of the cause. */
  readonly details: Readonly<Record<string, unknown>>
  readonly progress: readonly string[]

  constructor(cause: unknown, progress: readonly string[], details: Readonly<Record<string, unknown>>) {
    super(progress.join('\n'), { cause })
    this.details = details
    this.progress = progress
  }
}
