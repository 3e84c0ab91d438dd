import { LicensingApiError } from '@licensing/sdk/backend'
import { Interrupted, Refusal } from './failures.ts'
import type { Output } from './output.ts'
import { withoutSecrets } from './output.ts'

/** Says why a command came to nothing; with `--json`, the service's problem document on standard output too. */
export function report(out: Output, error: unknown): void {
  const [message = '', ...more] = messageOf(error)
  if (out.json) out.result(problemOf(error, withoutSecrets([message, ...more].join('\n'), [])), [])
  out.message(`error: ${message}`, ...more)
}

/** In lines. A line break in a text of the service does not begin a line. */
function messageOf(error: unknown): string[] {
  if (error instanceof Interrupted) return [...messageOf(error.cause), ...error.progress]
  if (error instanceof Refusal) return [error.message, ...error.list]
  if (!(error instanceof LicensingApiError)) return [error instanceof Error ? error.message : String(error)]
  const { code, status, requestId, errors, problem } = error
  if (status === 0) return [`the licensing service does not answer (${causeOf(error)})`]
  if (code === 'unexpected_answer') {
    return [`the server at this address is not the licensing service (${error.message})`]
  }
  const fields = errors.map(({ pointer, message }) => `  ${pointer === '' ? '/' : pointer}: ${message}`)
  const allowed = Array.isArray(problem['allowed']) ? problem['allowed'].map(String) : []
  return [
    `${error.message} (${status} ${code})`,
    ...fields,
    ...(allowed.length === 0 ? [] : [`allowed now: ${allowed.join(', ')}`]),
    ...(requestId === null ? [] : [`request ${requestId}`]),
  ]
}

/** `fetch` says only that it failed; the reason is the cause of its error. */
function causeOf({ code, message, cause }: LicensingApiError): string {
  if (code === 'timeout') return 'no answer in time'
  const inner = cause instanceof Error ? cause.cause : undefined
  if (inner instanceof Error) return 'code' in inner ? String(inner.code) : inner.message
  return message
}

function problemOf(error: unknown, detail: string): object {
  if (error instanceof Interrupted) return { ...problemOf(error.cause, detail), ...error.details }
  if (error instanceof LicensingApiError) {
    return error.problem['code'] === undefined
      ? { code: error.code, status: error.status, detail }
      : error.problem
  }
  if (error instanceof Refusal) return { code: error.code, detail, ...error.details }
  return { code: error instanceof Error && error.name === 'UsageError' ? 'usage' : 'failed', detail }
}
