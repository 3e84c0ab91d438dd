import { createInterface } from 'node:readline'
import { Writable } from 'node:stream'
import type { Stream } from './output.ts'

/** Standard input, and the stream for questions. */
export interface Terminal {
  readonly input: NodeJS.ReadStream | undefined
  readonly output: Stream
}

/** Whether a person can answer a question. */
export const isTerminal = ({ input, output }: Terminal) => input?.isTTY === true && output.isTTY === true

/** Reads one line from the terminal; undefined after Ctrl-C or Ctrl-D. A hidden answer is not shown. */
export function ask(
  { input, output }: Terminal,
  question: string,
  { isHidden = false } = {},
): Promise<string | undefined> {
  const shown = new Writable({
    write: (chunk: Buffer, _encoding, done) => {
      if (!isHidden) output.write(chunk.toString())
      done()
    },
  })
  const lines = createInterface({ input: input!, output: shown, terminal: true, prompt: question })
  if (isHidden) output.write(question)
  return new Promise<string | undefined>((resolve) => {
    lines.once('line', (line) => resolve(line))
    lines.once('SIGINT', () => resolve(undefined))
    lines.once('close', () => resolve(undefined))
    lines.prompt()
  }).finally(() => {
    lines.close()
    if (isHidden) output.write('\n')
  })
}
