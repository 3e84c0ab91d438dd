import { printable } from '@licensing/terminal/printable'

const bold = (text: string) => (process.stdout.isTTY ? `\u001b[1m${text}\u001b[0m` : text)
const dim = (text: string) => (process.stdout.isTTY ? `\u001b[2m${text}\u001b[0m` : text)

/** A headline of the demo. */
export function chapter(title: string): void {
  process.stdout.write(`\n${bold(printable(title))}\n`)
}

/** A sentence of it. */
export function tell(text: string): void {
  process.stdout.write(`  ${printable(text)}\n`)
}

/** Something that is not as the demo expects it. */
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

/** Calls of the API that show each request and its answer. */
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
