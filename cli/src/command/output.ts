import { printable } from '@licensing/terminal/printable'
import { LicensingApiError } from '@licensing/sdk/backend'
import { Interrupted, Refusal } from './failures.ts'

export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean
}

const colours = { red: 31, green: 32, yellow: 33 } as const

const CLEAR_LINE = '\r\u001B[K'

/** A part of a line in a colour. */
interface Painted {
  readonly text: string
  readonly colour: keyof typeof colours
}

/** One line, whole or in parts. It may contain text of a vendor or customer: control characters and line breaks in it are escaped. */
type Line = string | readonly (string | Painted)[]

/** Results go to standard output, as text or as JSON; messages go to standard error. */
export interface Output {
  readonly json: boolean
  /** A result: the value as JSON with `--json`, else the lines. */
  result(value: unknown, lines: readonly Line[]): void
  /** One of many results: the value as one line of JSON with `--json`, else the line. */
  line(value: unknown, line: Line): void
  /** For the person at the terminal. */
  message(...lines: readonly string[]): void
  /** How far long work is: a line that the next message takes the place of, where messages go to a terminal. */
  progress(text: string): void
}

/** `secrets` are hidden in messages, wherever these come from. */
export function createOutput(
  stdout: Stream,
  stderr: Stream,
  { json, env, secrets }: { json: boolean; env: NodeJS.ProcessEnv; secrets: readonly string[] },
): Output {
  const coloured = stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  let hasProgress = false
  const clearProgress = () => {
    if (hasProgress) stderr.write(CLEAR_LINE)
    hasProgress = false
  }
  const print = (lines: readonly Line[]) => {
    clearProgress()
    stdout.write(lines.map((line) => `${written(line, coloured)}\n`).join(''))
  }
  // A line of JSON has these characters in strings only, where they are escaped.
  const asJson = (value: unknown, space?: number) => JSON.stringify(value, null, space).split('\n')
  return {
    json,
    result: (value, lines) => print(json ? asJson(value, 2) : lines),
    line: (value, line) => print(json ? asJson(value) : [line]),
    message: (...lines) => {
      clearProgress()
      stderr.write(lines.map((line) => `${printable(withoutSecrets(line, secrets))}\n`).join(''))
    },
    progress: (text) => {
      if (stderr.isTTY !== true) return
      stderr.write(`${CLEAR_LINE}${printable(text)}`)
      hasProgress = true
    },
  }
}

function written(line: Line, coloured: boolean): string {
  const parts = typeof line === 'string' ? [line] : line
  return parts
    .map((part) => {
      if (typeof part === 'string') return printable(part)
      const text = printable(part.text)
      return coloured ? `\u001B[${colours[part.colour]}m${text}\u001B[0m` : text
    })
    .join('')
}

function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret !== '')
    .reduce((hidden, secret) => hidden.replaceAll(secret, '***'), text)
    .replaceAll(/\blsk_[\w-]+/g, 'lsk_***')
}

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
