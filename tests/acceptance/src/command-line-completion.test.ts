import { execFile, execFileSync } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify, stripVTControlCharacters } from 'node:util'
import { fileURLToPath } from 'node:url'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { runCommand, startOnTerminal } from './command-line.ts'
import { givenFolder } from './vendor.ts'

const run = promisify(execFile)
const program = fileURLToPath(new URL('../../../cli/src/main.ts', import.meta.url))

const { path: home } = await givenFolder()
const bin = join(home, 'bin')
await mkdir(join(home, '.config/licensing'), { recursive: true })
await mkdir(bin)
await writeFile(join(bin, 'licensing'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
await chmod(join(bin, 'licensing'), 0o755)
await writeFile(join(home, 'products.yaml'), '')
const profile = { url: 'https://a.example', key: 'lsk_secret' }
await writeFile(join(home, '.config/licensing/profiles.json'), JSON.stringify({ staging: profile }))
const environment = { ...commandEnvironment(), PATH: `${bin}:${process.env['PATH']}`, HOME: home }

/** The text typed before the tab key, and the line that the shell completes it to. */
const lines = [
  ['licensing licences rea', 'licensing licences reactivate '],
  [
    'licensing listen --events licence.created,payment.s',
    'licensing listen --events licence.created,payment.succeeded ',
  ],
  ['licensing whoami --profile st', 'licensing whoami --profile staging '],
  ['licensing apply prod', 'licensing apply products.yaml '],
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
  terminal.type(`cd '${home}'; PS1='> '; ${setUp}; echo set'' up\r`)
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

test('bash completes commands, lists of event types, profiles and files', async () => {
  await completeOnTerminal(['bash', '--norc', '-i'], 'source <(licensing completion bash)')
})

test.runIf(isInstalled('zsh'))('zsh completes the same', async () => {
  const setUp = 'autoload -U compinit; compinit -u -D; source <(licensing completion zsh)'
  await completeOnTerminal(['zsh', '-f', '-i'], setUp)
})

test.runIf(isInstalled('fish'))('fish completes the same', async () => {
  for (const [typed, completed] of lines) {
    const script = `cd '${home}'; licensing completion fish | source; complete -C '${typed}'`
    const { stdout } = await run('fish', ['--no-config', '-c', script], { env: environment })
    const words = stdout.trim().split('\n')
    expect(words.map((line) => line.split('\t')[0])).toEqual([completed.trimEnd().split(' ').at(-1)])
  }
})

test.each([
  ['lic', ['licences']],
  ['keys ', ['list', 'create', 'revoke', 'help']],
  ['completion z', ['zsh']],
  ['trigger refund.p', ['refund.processed']],
  ['--json trigger webh', ['webhook.test']],
  ['listen --forw', ['--forward-to']],
  ['licences list --status susp', ['suspended']],
  // bash divides words at an equals sign.
  ['licences list --status = susp', ['suspended']],
  ['licences list --status=susp', ['--status=suspended']],
  ['nonsense x', ['']],
])('%j is completed to %j', async (words, completions) => {
  const { stdout } = await runCommand(environment, 'complete', '--', ...words.split(' '))
  expect(stdout.trimEnd().split('\n')).toEqual(completions)
})
