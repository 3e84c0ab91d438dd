import { expect, test } from 'vitest'
import { commands } from './commands.ts'
import { run } from './run.ts'

async function use(args: string[], env: NodeJS.ProcessEnv = {}) {
  const printed = { stdout: '', stderr: '' }
  const code = await run(commands, {
    args,
    env,
    stdout: { write: (text) => (printed.stdout += text) },
    stderr: { write: (text) => (printed.stderr += text) },
    signal: new AbortController().signal,
  })
  return { code, ...printed }
}

const somewhere = { LICENSING_URL: 'http://127.0.0.1:9', LICENSING_API_KEY: 'lsk_some-key' }

test('an unknown command, option or argument is wrong use: a message, exit 2, and nothing on standard output', async () => {
  for (const [args, message] of [
    [['nonsense'], 'unknown command: nonsense'],
    [['licences', 'nonsense'], 'unknown command: licences nonsense'],
    [['licences'], 'unknown command: licences'],
    [['licences', 'find'], 'licences find takes one argument, QUERY'],
    [['licences', 'find', 'a', 'b'], 'licences find takes one argument, QUERY'],
    [['licences', 'find', 'a', '--colour'], "Unknown option '--colour'"],
    [['licences', 'find', 'a', '--after', '1'], 'licences find has no option --after'],
    [['licences', 'find', 'a', '--app'], '--app'],
  ] as const) {
    const { code, stdout, stderr } = await use([...args], somewhere)
    expect([code, stdout]).toEqual([2, ''])
    expect(stderr).toContain(message)
  }
})

test('a missing URL or key is wrong use, and an empty variable counts as missing', async () => {
  const find = ['licences', 'find', 'acme']
  for (const [env, message] of [
    [{ ...somewhere, LICENSING_URL: '' }, 'LICENSING_URL'],
    [{ LICENSING_API_KEY: 'lsk_some-key' }, 'LICENSING_URL'],
    [{ LICENSING_URL: somewhere.LICENSING_URL }, 'LICENSING_API_KEY'],
    [{ ...somewhere, LICENSING_URL: 'licensing.example.com' }, 'http:// or https://'],
  ] as const) {
    const { code, stderr } = await use(find, env)
    expect(code).toBe(2)
    expect(stderr).toContain(message)
  }
  const answered = await use([...find, '--json'], {})
  expect(JSON.parse(answered.stdout)).toMatchObject({ code: 'usage' })
})

test('a password in the URL is refused and not repeated', async () => {
  const { code, stderr } = await use(['licences', 'find', 'acme', '--url', 'http://a:hunter2@127.0.0.1'], {
    LICENSING_API_KEY: 'lsk_some-key',
  })
  expect(code).toBe(2)
  expect(stderr).not.toContain('hunter2')
})

test('every command has help with an example, before and after its name, without a URL or a key', async () => {
  for (const { name, examples } of commands) {
    expect(examples.length).toBeGreaterThan(0)
    for (const args of [
      [...name.split(' '), '--help'],
      ['help', ...name.split(' ')],
    ]) {
      const { code, stdout, stderr } = await use(args)
      expect([code, stderr]).toEqual([0, ''])
      expect(stdout).toContain(`licensing ${examples[0]}`)
    }
  }
  const { code, stdout } = await use(['--help'])
  expect(code).toBe(0)
  for (const { name } of commands) expect(stdout).toContain(name)
  expect(await use([])).toMatchObject({ code: 2, stdout: '' })
})
