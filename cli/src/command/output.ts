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

/** The columns of a list: a field of its rows, or a name and its value in a row. */
export type Columns<Row> = readonly ((keyof Row & string) | readonly [string, (row: Row) => unknown])[]

/** Results go to standard output, as text or as JSON; messages go to standard error. */
export interface Output {
  readonly json: boolean
  /** A result: the value as JSON with `--json`, else the lines. */
  result(value: unknown, lines: readonly Line[]): void
  /** One object with all its fields. A field that is a list of objects has one line for each object. */
  record(value: object): void
  /** Rows in columns, below their names on a terminal. */
  list<Row>(rows: readonly Row[], columns: Columns<Row>): void
  /** One of many results: the value as one line of JSON with `--json`, else the line. */
  line(value: unknown, line: Line): void
  /** Prints lines to standard error, for the person at the terminal. */
  message(...lines: readonly string[]): void
  /**
   * Shows the progress of long work: on a terminal a line that the next message replaces, elsewhere a line every ten
   * seconds.
   */
  progress(text: string): void
  /** Replaces this text with `***` in messages and progress. */
  hide(secret: string): void
  /** Ends the progress. */
  close(): void
}

const PROGRESS_MS = 10_000

export function createOutput(
  stdout: Stream,
  stderr: Stream,
  { json, env }: { json: boolean; env: NodeJS.ProcessEnv },
): Output {
  const coloured = stdout.isTTY === true && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  const secrets: string[] = []
  let progress = ''
  let timer: NodeJS.Timeout | undefined
  const clearProgress = () => {
    if (stderr.isTTY === true && progress !== '') stderr.write(CLEAR_LINE)
    progress = ''
  }
  const print = (lines: readonly Line[]) => {
    clearProgress()
    stdout.write(lines.map((line) => `${written(line, coloured)}\n`).join(''))
  }
  const say = (line: string) => stderr.write(`${printable(withoutSecrets(line, secrets))}\n`)
  // A line of JSON has these characters in strings only, where they are escaped.
  const asJson = (value: unknown, space?: number) => JSON.stringify(value, null, space).split('\n')
  const result: Output['result'] = (value, lines) => print(json ? asJson(value, 2) : lines)
  return {
    json,
    result,
    record: (value) =>
      result(
        value,
        Object.entries(value).flatMap(([name, field]: [string, unknown]) =>
          isTable(field) ? [`${name}:`, ...field.map(rowOf)] : [`${name}: ${textOf(field)}`],
        ),
      ),
    list: (rows, columns) => result(rows, table(rows, columns, stdout.isTTY === true)),
    line: (value, line) => print(json ? asJson(value) : [line]),
    message: (...lines) => {
      clearProgress()
      for (const line of lines) say(line)
    },
    progress: (text) => {
      progress = text
      if (stderr.isTTY === true) stderr.write(`${CLEAR_LINE}${printable(withoutSecrets(text, secrets))}`)
      else timer ??= setInterval(() => progress !== '' && say(progress), PROGRESS_MS).unref()
    },
    hide: (secret) => void secrets.push(secret),
    close: () => {
      clearProgress()
      clearInterval(timer)
    },
  }
}

const isTable = (value: unknown): value is object[] =>
  Array.isArray(value) && typeof value[0] === 'object' && value[0] !== null

/** An object in a list of a record, on one line. */
const rowOf = (row: object) =>
  `  ${Object.entries(row)
    .map(([name, field]) => `${name}: ${textOf(field)}`)
    .join(', ')}`

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

function table<Row>(rows: readonly Row[], columns: Columns<Row>, hasHead: boolean): string[] {
  const cell = (value: unknown) => (value === null || value === undefined ? '-' : printable(textOf(value)))
  const valueOf = (row: Row, column: Columns<Row>[number]) =>
    typeof column === 'string' ? row[column] : column[1](row)
  const names = columns.map((column) => (typeof column === 'string' ? column : column[0]).toUpperCase())
  const body = rows.map((row) => columns.map((column) => cell(valueOf(row, column))))
  const all = hasHead && rows.length > 0 ? [names, ...body] : body
  const widths = names.map((_, at) => Math.max(...all.map((cells) => cells[at]!.length)))
  return all.map((cells) =>
    cells
      .map((text, at) => text.padEnd(widths[at]!))
      .join('  ')
      .trimEnd(),
  )
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

/**
 * Prints why a command failed; with `--json`, the service's problem document on standard output too.
 *
 * @param address of the service, if the command has called it
 * @param proxy the sentence of `proxyOf`
 */
export function report(out: Output, error: unknown, address: string | undefined, proxy?: string): void {
  const [message = '', ...more] = messageOf(error, address, proxy)
  if (out.json) out.result(problemOf(error, withoutSecrets([message, ...more].join('\n'), [])), [])
  out.message(`error: ${message}`, ...more)
}

/** The error as lines to print. A line break in a text of the service does not begin a new line. */
function messageOf(error: unknown, address: string | undefined, proxy: string | undefined): string[] {
  if (error instanceof Interrupted) return [...messageOf(error.cause, address, proxy), ...error.progress]
  if (error instanceof Refusal) return [error.message, ...error.list]
  if (!(error instanceof LicensingApiError))
    return (error instanceof Error ? error.message : String(error)).split('\n')
  const { code, status, requestId, errors, problem } = error
  if (status === 0) {
    return [
      `the licensing service at ${address} does not answer (${causeOf(error)})`,
      'check that it runs, and LICENSING_URL or --url',
      ...(proxy === undefined ? [] : [`${proxy}: check it too, or add the host to NO_PROXY`]),
    ]
  }
  if (code === 'unexpected_answer') {
    return [`the server at ${address} is not the licensing service (${error.message})`]
  }
  const fields =
    errors.length < 2
      ? []
      : errors.map(({ pointer, message }) => `  ${pointer === '' ? '/' : pointer}: ${message}`)
  const allowed = Array.isArray(problem['allowed']) ? problem['allowed'].map(String) : []
  return [
    `${errors.length < 2 ? error.message : 'these fields are not valid'} (${status} ${code})`,
    ...fields,
    ...(allowed.length === 0 ? [] : [`allowed now: ${allowed.join(', ')}`]),
    ...(code === 'unauthenticated' ? ['run licensing login, or check LICENSING_API_KEY or --key'] : []),
    ...(requestId === null ? [] : [`request ${requestId}`]),
  ]
}

/** `fetch` says only that it failed; the reason is the cause of its error. */
export function causeOf({ code, message, cause }: LicensingApiError): string {
  if (code === 'timeout') return 'no answer in time'
  const inner = cause instanceof Error ? cause.cause : undefined
  if (!(inner instanceof Error)) return message
  // The messages of the HTTP client say more than its codes.
  const named = 'code' in inner && typeof inner.code === 'string' && !inner.code.startsWith('UND_')
  return named ? String(inner.code) : inner.message
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
