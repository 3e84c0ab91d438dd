import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { commands } from './commands.ts'
import { run } from './run.ts'

async function use(
  args: string[],
  env: NodeJS.ProcessEnv = {},
  { signal = new AbortController().signal, isTTY = false } = {},
) {
  const printed = { stdout: '', stderr: '' }
  const code = await run(commands, {
    args,
    env,
    stdout: { write: (text) => (printed.stdout += text), isTTY },
    stderr: { write: (text) => (printed.stderr += text), isTTY },
    signal,
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

// What a terminal acts on, what reorders a line, and what would begin a line of its own.
const hostile = 'x\u001b]0;pwned\u0007\u001b[2J\u009b31m\u007f\u202e\u2066\r\nerror: forged\u2028'
const steering = /(?!\n)[\p{Cc}\u2028-\u202e\u2066-\u2069]/u

/** A server at the address of the service that answers everything with these texts. */
async function startHostile(status: number, answers: Readonly<Record<string, unknown>>) {
  const server = createServer((request, response) => {
    const path = new URL(request.url!, 'http://localhost').pathname
    const answer = answers[path] ?? answers['*']
    response.writeHead(status, {
      'content-type': status < 400 ? 'application/json' : 'application/problem+json',
    })
    response.end(JSON.stringify(answer))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    env: {
      LICENSING_URL: `http://127.0.0.1:${port}`,
      LICENSING_API_KEY: 'lsk_some-key',
      LICENSING_APP: 'app_1',
    },
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const licence = {
  id: `lic_${hostile}`,
  status: hostile,
  external_ref: hostile,
  key: hostile,
  restrictions: null,
}

test.each([
  ['licences find', ['licences', 'find', 'acme'], { '*': { data: [{ matched: hostile, licence }] } }],
  ['licences show', ['licences', 'show', 'lic_1'], { '*': { ...licence, call_home: [{ host: hostile }] } }],
  ['a verb', ['licences', 'revoke', 'lic_1'], { '*': licence }],
  [
    'export',
    ['export'],
    {
      '/v1/apps/app_1/entitlement-defs': {
        data: [{ id: 'ent_1', key: 'seats', kind: 'limit', display_name: hostile, default: '1' }],
        next_cursor: null,
      },
      '*': {
        data: [
          {
            code: hostile,
            name: hostile,
            status: 'active',
            entitlements: [],
            trial_days: null,
            metadata: { a: hostile },
          },
        ],
        next_cursor: null,
      },
    },
  ],
] as const)('%s prints nothing that steers a terminal or forges a line', async (_name, args, answers) => {
  await using service = await startHostile(200, answers)
  const text = await use([...args], service.env)
  expect(text).toMatchObject({ code: 0, stderr: '' })
  expect(text.stdout).not.toMatch(steering)
  expect(text.stdout).not.toMatch(/^error: forged/m)
  // YAML has shorter escapes for some.
  expect(text.stdout).toMatch(/\\(?:u001b|e)\]0;pwned/)
  const json = await use([...args, '--json'], service.env)
  expect(json.stdout).not.toMatch(steering)
  expect(JSON.stringify(JSON.parse(json.stdout))).toContain(JSON.stringify(hostile).slice(1, -1))
  // Colours are the program's own.
  const onTerminal = await use([...args], service.env, { isTTY: true })
  expect(onTerminal.stdout.replaceAll(/(?!\n)\p{Cc}\[\d+m/gu, '')).toBe(text.stdout)
})

test('what a refusal says steers no terminal and forges no line', async () => {
  const problem = {
    code: 'conflict',
    status: 409,
    detail: hostile,
    request_id: hostile,
    allowed: [hostile],
    errors: [{ pointer: `/${hostile}`, message: hostile }],
  }
  await using service = await startHostile(409, { '*': problem })
  const text = await use(['licences', 'revoke', 'lic_1'], service.env)
  expect(text).toMatchObject({ code: 1, stdout: '' })
  expect(text.stderr).toMatch(/^error: x/)
  expect(text.stderr).not.toMatch(steering)
  expect(text.stderr).not.toMatch(/^error: forged/m)
  const json = await use(['licences', 'revoke', 'lic_1', '--json'], service.env)
  expect(json.stdout).not.toMatch(steering)
  expect(JSON.parse(json.stdout)).toEqual(problem)
  const apps = [1, 2].map((n) => ({ id: `app_${n}`, name: hostile }))
  await using several = await startHostile(200, {
    '/v1/api-keys/self': { app_id: null },
    '*': { data: apps, next_cursor: null },
  })
  const choice = await use(['export'], { ...several.env, LICENSING_APP: '' })
  expect(choice.stderr).toMatch(/^ {2}app_2 {2}x\\u001b/m)
  expect(choice.stderr).not.toMatch(steering)
  expect(choice.stderr).not.toMatch(/^error: forged/m)
})

test('the lines of listen steer no terminal', async () => {
  await using service = await startHostile(200, {
    '*': { data: [{ id: 'evt_1', type: hostile, sequence: 1 }], next_after: 1 },
  })
  const stop = new AbortController()
  const printed: string[] = []
  const finished = run(commands, {
    args: ['listen', '--forward-to', 'http://127.0.0.1:9'],
    env: service.env,
    stdout: {
      write: (text) => {
        if (printed.push(text) > 3) stop.abort()
      },
      isTTY: true,
    },
    stderr: { write: () => undefined },
    signal: stop.signal,
  })
  await finished
  const text = printed.join('')
  expect(text).toContain('1 x\\u001b]0;pwned')
  expect(text.replaceAll(/(?!\n)\p{Cc}\[\d+m/gu, '')).not.toMatch(steering)
  expect(text).not.toMatch(/^error: forged/m)
})
