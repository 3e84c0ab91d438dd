import { CHECKOUT } from '@licensing/local-servers/services'
import { printable } from '@licensing/terminal/printable'
import { execFile } from 'node:child_process'
import { mkdtempDisposable, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const bold = (text: string) => (process.stdout.isTTY ? `\u001b[1m${text}\u001b[0m` : text)
const dim = (text: string) => (process.stdout.isTTY ? `\u001b[2m${text}\u001b[0m` : text)

/** Prints a heading of the demo. */
export function chapter(title: string): void {
  process.stdout.write(`\n${bold(printable(title))}\n`)
}

/** Prints a line of the demo. */
export function tell(text: string): void {
  process.stdout.write(`  ${printable(text)}\n`)
}

/** A result that the demo does not expect. */
export class DemoFailure extends Error {}

export function expectThat(condition: boolean, otherwise: string): void {
  if (!condition) throw new DemoFailure(otherwise)
}

type Json = Record<string, unknown>

export interface Caller {
  (
    method: string,
    path: string,
    body?: Json,
    headers?: Record<string, string>,
  ): Promise<{ status: number; body: Json }>
}

/** Calls the API, and prints each request and its answer. */
export function caller(gateway: string, bearer: string | undefined): Caller {
  return async (method, path, body, headers = {}) => {
    process.stdout.write(
      `  ${printable(`${method} ${path}`)}${body ? ` ${dim(printable(JSON.stringify(body)))}` : ''}\n`,
    )
    const response = await fetch(`${gateway}${path}`, {
      method,
      headers: {
        ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }),
        ...(body && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const answer = text === '' ? {} : (JSON.parse(text) as Json)
    process.stdout.write(`    ${response.status} ${dim(printable(shortened(answer)))}\n`)
    return { status: response.status, body: answer }
  }
}

function shortened(answer: Json): string {
  const text = JSON.stringify(answer)
  return text.length > 400 ? `${text.slice(0, 400)}…` : text
}

/** Runs a command of the vendor's command line. */
export interface CommandLine {
  (...args: string[]): Promise<{ code: number; answer: Json }>
}

/** Runs commands, and prints them with their output. */
export function commandLine(gateway: string, apiKey: string, appId: string): CommandLine {
  const program = join(CHECKOUT, 'cli/src/main.ts')
  const env = {
    PATH: process.env['PATH'] ?? '',
    LICENSING_URL: gateway,
    LICENSING_API_KEY: apiKey,
    LICENSING_APP: appId,
  }
  return (...args) => {
    tell(`$ licensing ${args.join(' ')}`)
    return new Promise((resolve) => {
      execFile(process.execPath, [program, ...args, '--json'], { env }, (error, stdout, stderr) => {
        const answer = (stdout === '' ? {} : JSON.parse(stdout)) as Json
        process.stdout.write(`    ${dim(printable(error ? stderr.split('\n')[0]! : shortened(answer)))}\n`)
        resolve({ code: error ? Number(error.code) : 0, answer })
      })
    })
  }
}

/** Writes and prints a file, and calls `use` with its path. */
export async function withFile<Result>(
  name: string,
  content: string,
  use: (file: string) => Promise<Result>,
): Promise<Result> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'licensing-demo-'))
  const file = join(folder.path, name)
  await writeFile(file, content)
  for (const line of content.trimEnd().split('\n')) tell(`  ${line}`)
  return await use(file)
}
