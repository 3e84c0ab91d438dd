import { execFile, execFileSync } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startOnTerminal } from './command-line.ts'

const run = promisify(execFile)
const program = new URL('../../../cli/src/main.ts', import.meta.url).pathname

let folder: TemporaryFolder
let environment: Record<string, string>

beforeAll(async () => {
  folder = await makeTemporaryFolder()
  const bin = join(folder.path, 'bin')
  await mkdir(join(folder.path, '.config/licensing'), { recursive: true })
  await mkdir(bin)
  await writeFile(join(bin, 'licensing'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  await chmod(join(bin, 'licensing'), 0o755)
  await writeFile(join(folder.path, 'products.yaml'), '')
  const profile = { url: 'https://a.example', key: 'lsk_secret' }
  await writeFile(join(folder.path, '.config/licensing/profiles.json'), JSON.stringify({ staging: profile }))
  environment = {
    ...commandEnvironment(),
    PATH: `${bin}:${process.env['PATH']}`,
    HOME: folder.path,
  }
})
afterAll(() => folder[Symbol.asyncDispose]())

/** The text typed before the tab key, and the line that the shell completes it to. */
const lines = [
  ['licensing lic', 'licensing licences '],
  ['licensing licences rea', 'licensing licences reactivate '],
  ['licensing trigger refund.p', 'licensing trigger refund.processed '],
  ['licensing --json trigger webh', 'licensing --json trigger webhook.test '],
  ['licensing listen --forw', 'licensing listen --forward-to '],
  [
    'licensing listen --events licence.created,payment.s',
    'licensing listen --events licence.created,payment.succeeded ',
  ],
  ['licensing licences list --status susp', 'licensing licences list --status suspended '],
  ['licensing whoami --profile st', 'licensing whoami --profile staging '],
  ['licensing apply prod', 'licensing apply products.yaml '],
  ['licensing completion z', 'licensing completion zsh '],
] as const

const isInstalled = (shell: string) => {
  try {
    execFileSync(shell, ['--version'])
    return true
  } catch {
    return false
  }
}

/** Types each line and the tab key on a terminal of the shell. */
async function completeOnTerminal(shell: readonly string[], setUp: string) {
  await using terminal = startOnTerminal(environment, ...shell)
  terminal.type(`cd '${folder.path}'; PS1='> '; ${setUp}; echo set'' up\r`)
  await eventually(() => expect(terminal.stdout()).toContain('set up'))
  for (const [typed, completed] of lines) {
    const before = terminal.stdout().length
    terminal.type(`${typed}\t`)
    await eventually(() => expect(shown(terminal.stdout().slice(before))).toContain(completed))
    // Ctrl-U removes the line.
    terminal.type('\u0015')
  }
}

/** The output without control sequences of the terminal. */
const shown = (output: string) => stripVTControlCharacters(output).replaceAll(/\p{Cc}/gu, '')

test('bash completes commands, options, event types, profiles and files', async () => {
  await completeOnTerminal(['bash', '--norc', '-i'], 'source <(licensing completion bash)')
})

test.runIf(isInstalled('zsh'))('zsh completes the same', async () => {
  await completeOnTerminal(
    ['zsh', '-f', '-i'],
    'autoload -U compinit; compinit -u -D; source <(licensing completion zsh)',
  )
})

test.runIf(isInstalled('fish'))('fish completes the same', async () => {
  for (const [typed, completed] of lines) {
    const script = `cd '${folder.path}'; licensing completion fish | source; complete -C '${typed}'`
    const { stdout } = await run('fish', ['--no-config', '-c', script], { env: environment })
    const words = stdout
      .trim()
      .split('\n')
      .map((line) => line.split('\t')[0])
    expect(words).toEqual([completed.trimEnd().split(' ').at(-1)])
  }
})

test('bash completes the value after an equals sign, and the names of a group', async () => {
  const complete = async (...words: string[]) => {
    const { stdout } = await run('licensing', ['complete', '--', ...words], { env: environment })
    return stdout.trimEnd().split('\n')
  }
  expect(await complete('licences', 'list', '--status', '=', 'susp')).toEqual(['suspended'])
  expect(await complete('licences', 'list', '--status', '=')).toHaveLength(6)
  expect(await complete('licences', 'list', '--status=susp')).toEqual(['--status=suspended'])
  expect(await complete('keys', '')).toEqual(['list', 'create', 'revoke', 'help'])
  expect(await complete('trigger', '--')).toContain('--app')
  expect(await complete('trigger', '--')).not.toContain('--forward-to')
  expect(await complete('nonsense', 'x')).toEqual([''])
})
