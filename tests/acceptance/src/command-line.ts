import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { run } from '../../../cli/src/run.ts'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import type { Stack } from '@licensing/test-support/stack-shape'
import { expect } from 'vitest'

const program = fileURLToPath(new URL('../../../cli/src/main.ts', import.meta.url))

interface Finished {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A command that runs in its own process, as `npm run cli` starts it. */
interface RunningCommand extends AsyncDisposable {
  /** The output so far. */
  readonly stdout: () => string
  readonly stderr: () => string
  readonly finished: Promise<Finished>
  /** Types a text on the command's terminal. */
  type(text: string): void
  stop(): Promise<Finished>
}

export function settingsOf(stack: Pick<Stack, 'gatewayUrl' | 'apiKey' | 'appId'>, appId = stack.appId) {
  return { LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: stack.apiKey, LICENSING_APP: appId }
}

/** Starts a command with only these environment variables and an empty standard input. */
export const startCommand = (environment: Record<string, string>, ...args: string[]) =>
  start(environment, [process.execPath, program, ...args], 'ignore')

/** Starts a command with a text on standard input. */
export function pipeToCommand(input: string, environment: Record<string, string>, ...args: string[]) {
  const command = start(environment, [process.execPath, program, ...args], 'pipe')
  command.type(input)
  return command
}

// Connects its input and output to a pseudo terminal, and exits with the program's exit code.
const terminal = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))'

/** Starts a program on a terminal. `stdout` has both outputs. */
export const startOnTerminal = (environment: Record<string, string>, ...argv: string[]) =>
  start({ TERM: 'xterm', ...environment }, ['python3', '-c', terminal, ...argv], 'open')

/** Starts a command on a terminal. */
export const useTerminal = (environment: Record<string, string>, ...args: string[]) =>
  startOnTerminal(environment, process.execPath, program, ...args)

function start(
  environment: Record<string, string>,
  [file, ...args]: string[],
  input: 'ignore' | 'pipe' | 'open',
): RunningCommand {
  const child = spawn(file!, args, {
    env: { ...commandEnvironment(), ...environment },
    stdio: [input === 'ignore' ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout!.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  child.stderr!.on('data', (chunk: Buffer) => (stderr += chunk.toString()))
  const finished = once(child, 'close').then(([code]: (number | null)[]) => ({
    code: code ?? null,
    stdout,
    stderr,
  }))
  const stop = () => {
    child.kill('SIGINT')
    return finished
  }
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    finished,
    type: (text) => void (input === 'pipe' ? child.stdin!.end(text) : child.stdin!.write(text)),
    stop,
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL')
      await finished
    },
  }
}

/** Runs a command in this process, which is much faster than a new process. */
export async function runCommand(environment: Record<string, string>, ...args: string[]): Promise<Finished> {
  const printed = { stdout: '', stderr: '' }
  const code = await run({
    args,
    env: environment,
    stdout: { write: (text) => (printed.stdout += text) },
    stderr: { write: (text) => (printed.stderr += text) },
    signal: new AbortController().signal,
  })
  return { code, ...printed }
}

/**
 * Runs commands with these settings. Words are separated by spaces. `more` are arguments that may contain spaces.
 *
 * @example await text('licences find', 'Ann Smith')
 */
export function commandLine(environment: Record<string, string>) {
  const text = (words: string, ...more: string[]) => runCommand(environment, ...words.split(' '), ...more)
  return {
    text,
    /** Runs a command with `--json`, expects its exit code, and parses its output. */
    json: async <Answer>(words: string, code = 0): Promise<Answer> => {
      const finished = await text(words, '--json')
      expect(finished.code, `${words}: ${finished.stderr}`).toBe(code)
      return JSON.parse(finished.stdout) as Answer
    },
  }
}
