import { printable } from '@licensing/terminal/printable'

export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean
}

const colours = { red: 31, green: 32, yellow: 33 } as const

const CLEAR_LINE = '\r\u001B[K'

/** A part of a line in a colour. */
export interface Painted {
  readonly text: string
  readonly colour: keyof typeof colours
}

/** One line, whole or in parts. It may contain text of a vendor or customer: control characters and line breaks in it are escaped. */
export type Line = string | readonly (string | Painted)[]

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

export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret !== '')
    .reduce((hidden, secret) => hidden.replaceAll(secret, '***'), text)
    .replaceAll(/\blsk_[\w-]+/g, 'lsk_***')
}
