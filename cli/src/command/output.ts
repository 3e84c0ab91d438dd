export interface Stream {
  write(text: string): unknown
  readonly isTTY?: boolean
}

const colours = { red: 31, green: 32, yellow: 33 } as const

const CLEAR_LINE = '\r\u001B[K'

/** Results go to standard output, as text or as JSON; messages go to standard error. */
export interface Output {
  readonly json: boolean
  /** A result: the value as JSON with `--json`, else the text. */
  result(value: unknown, text: string): void
  /** One of many results: the value as one line of JSON with `--json`, else the text. */
  line(value: unknown, text: string): void
  /** For the person at the terminal. */
  message(text: string): void
  /** How far long work is: a line that the next message takes the place of, where messages go to a terminal. */
  progress(text: string): void
  /** The text in a colour where results are read on a terminal. */
  paint(colour: keyof typeof colours, text: string): string
}

/** `secrets` are hidden in messages, wherever these come from. */
export function createOutput(
  stdout: Stream,
  stderr: Stream,
  { json, env, secrets }: { json: boolean; env: NodeJS.ProcessEnv; secrets: readonly string[] },
): Output {
  const coloured = stdout.isTTY === true && !json && !env['NO_COLOR'] && env['TERM'] !== 'dumb'
  let hasProgress = false
  const clearProgress = () => {
    if (hasProgress) stderr.write(CLEAR_LINE)
    hasProgress = false
  }
  const print = (value: unknown, text: string, space?: number) => {
    clearProgress()
    stdout.write(`${json ? JSON.stringify(value, null, space) : text}\n`)
  }
  return {
    json,
    result: (value, text) => print(value, text, 2),
    line: (value, text) => print(value, text),
    message: (text) => {
      clearProgress()
      stderr.write(`${withoutSecrets(text, secrets)}\n`)
    },
    progress: (text) => {
      if (stderr.isTTY !== true) return
      stderr.write(`${CLEAR_LINE}${text}`)
      hasProgress = true
    },
    paint: (colour, text) => (coloured ? `\u001B[${colours[colour]}m${text}\u001B[0m` : text),
  }
}

export function withoutSecrets(text: string, secrets: readonly string[]): string {
  return secrets
    .filter((secret) => secret !== '')
    .reduce((hidden, secret) => hidden.replaceAll(secret, '***'), text)
    .replaceAll(/\blsk_[\w-]+/g, 'lsk_***')
}
