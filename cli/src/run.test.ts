import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { readFile } from 'node:fs/promises'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { expect, test } from 'vitest'
import type { Context } from './command/context.ts'
import { createProgram } from './program.ts'
import { run } from './run.ts'

const nowhere = { write: () => undefined }
const theProgram = (): CommandUnknownOpts => createProgram({} as Context, nowhere, nowhere)

async function use(
  args: string[],
  env: NodeJS.ProcessEnv = {},
  { signal = new AbortController().signal, isTTY = false } = {},
) {
  const printed = { stdout: '', stderr: '' }
  const code = await run({
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
    [['nonsense'], "unknown command 'nonsense'"],
    [['licences', 'nonsense'], "unknown command 'nonsense'"],
    [['licences', 'find'], "missing required argument 'query'"],
    [['licences', 'find', ' '], "'query'. It is empty."],
    [['licences', 'find', 'a', 'b'], 'Expected 1 argument but got 2'],
    [['licences', 'find', 'a', '--colour'], "unknown option '--colour'"],
    [['licences', 'find', 'a', '--after', '1'], "unknown option '--after'"],
    [['licences', 'find', 'a', '--app'], '--app'],
    [['help', 'licences', 'nonsense'], "unknown command 'nonsense'"],
    [['licences', 'nonsense', '--help'], 'unknown command: nonsense'],
    [['nonsense', '-h'], 'unknown command: nonsense'],
  ] as const) {
    const { code, stdout, stderr } = await use([...args], somewhere)
    expect([code, stdout], args.join(' ')).toEqual([2, ''])
    expect(stderr).toContain(message)
    expect(stderr).toMatch(/^error: (?!error)/)
  }
})

test('a mistyped command, option, event type or status is refused with the nearest valid name', async () => {
  for (const [args, right] of [
    [['licnces'], 'licences'],
    [['licences', 'isue'], 'issue'],
    [['help', 'licences', 'fnd'], 'find'],
    [['licences', 'fnd', '--help'], 'find'],
    [['licences', 'find', 'a', '--jsn'], '--json'],
    [['listen', '--forward-to', 'http://127.0.0.1:9', '--evnts', '*'], '--events'],
    [['trigger', 'licence.suspnded'], 'licence.suspended'],
    [
      ['listen', '--forward-to', 'http://127.0.0.1:9', '--events', 'licence.created,refund.procesed'],
      'refund.processed',
    ],
    [['endpoints', 'create', 'https://a.example', '--events', 'payment.suceeded'], 'payment.succeeded'],
    [['deliveries', 'list', '--type', 'licence.revokd'], 'licence.revoked'],
    [['licences', 'list', '--status', 'actve'], 'active'],
    [['completion', 'zhs'], 'zsh'],
  ] as const) {
    const { code, stderr } = await use([...args], somewhere)
    expect(code, args.join(' ')).toBe(2)
    expect(stderr).toMatch(new RegExp(`did you mean ${right}\\?`, 'i'))
  }
})

test('a wrong value of an option is reported before anything is sent', async () => {
  await using service = await startHostile(200, { '*': {} })
  for (const [args, message] of [
    [
      ['listen', '--forward-to', 'localhost:3000'],
      '--forward-to must be an http:// or https:// URL, not localhost:3000',
    ],
    [['listen', '--forward-to', 'http://a', '--after', '-1'], "'-1' is invalid"],
    [['licences', 'list', '--limit', '0'], "'0' is invalid"],
    [['licences', 'issue', '--plan', 'pln_1'], "'--external-ref <ref>' not specified"],
    [
      ['licences', 'issue', '--plan', 'pln_1', '--external-ref', 'c', '--expires-on', 'soon'],
      "'soon' is invalid",
    ],
    [
      ['licences', 'issue', '--plan', 'pln_1', '--external-ref', 'c', '--expires-on', '2035-02-01T10:00'],
      'is invalid',
    ],
    [
      ['licences', 'issue', '--plan', 'pln_1', '--external-ref', 'c', '--metadata', 'x'],
      'It must be NAME=VALUE',
    ],
    [
      ['licences', 'issue', '--plan', 'pln_1', '--external-ref', 'c', '--expires-on', '2035-02-29'],
      "'2035-02-29' is invalid",
    ],
    [['licences', 'set', 'lic_1'], 'nothing to set'],
    [['licences', 'set', 'lic_1', '--no-restrictions', '--max-seats', '1'], '--no-restrictions'],
    [['plans', 'set', 'pro'], 'nothing to set'],
    [['keys', 'create', 'ci', '--scope', 'write'], 'unknown scope: write'],
    [['keys', 'create', 'ci'], "'--scope <scope>' not specified"],
    [['apply', 'a.yaml', '--timeout', 'x'], "'x' is invalid"],
    [['metrics', 'licences', '--from', '2026-02-30'], "'2026-02-30' is invalid. It must be a day"],
    [['metrics', 'licences', '--from', '2026-11-01T00:00:00Z'], 'It must be a day like 2027-01-31'],
    [['metrics', 'licnces'], 'did you mean licences?'],
    [['licences', 'set-override', 'lic_1', 'seats'], "missing required argument 'value'"],
  ] as const) {
    const { code, stdout, stderr } = await use([...args], service.env)
    expect([code, stdout], args.join(' ')).toEqual([2, ''])
    expect(stderr).toContain(message)
  }
  expect(service.requests).toEqual([])
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

test('the options of every command may be before or after its name', async () => {
  await using service = await startHostile(200, { '/v1/licences/lic_1': { id: 'lic_1' } })
  const { LICENSING_URL, LICENSING_API_KEY } = service.env
  const options = ['--json', '--url', LICENSING_URL, '--key', LICENSING_API_KEY]
  for (const args of [
    [...options, 'licences', 'show', 'lic_1'],
    ['licences', ...options, 'show', 'lic_1'],
    ['licences', 'show', 'lic_1', ...options],
  ]) {
    const { code, stdout } = await use(args)
    expect([code, JSON.parse(stdout)]).toEqual([0, { id: 'lic_1' }])
  }
})

test('a password in the URL is refused and not repeated', async () => {
  const { code, stderr } = await use(['licences', 'find', 'acme', '--url', 'http://a:hunter2@127.0.0.1'], {
    LICENSING_API_KEY: 'lsk_some-key',
  })
  expect(code).toBe(2)
  expect(stderr).not.toContain('hunter2')
})

/** Every command without subcommands, with the words of its name. */
function leaves(
  command: CommandUnknownOpts = theProgram(),
  names: readonly string[] = [],
): [string[], CommandUnknownOpts][] {
  const all = command
    .createHelp()
    .visibleCommands(command)
    .filter((one) => one.name() !== 'help')
  return all.flatMap((one) => {
    const path = [...names, one.name()]
    return one.commands.length === 0 ? [[path, one] as [string[], CommandUnknownOpts]] : leaves(one, path)
  })
}

test('every command has help with an example, before and after its name, without a URL or a key', async () => {
  expect(leaves().length).toBeGreaterThan(40)
  for (const [names] of leaves()) {
    for (const args of [
      [...names, '--help'],
      [...names, '-h'],
      ['help', ...names],
    ]) {
      const { code, stdout, stderr } = await use(args)
      expect([code, stderr], args.join(' ')).toEqual([0, ''])
      expect(stdout).toContain(`\nExamples:\n  licensing ${names.join(' ')}`)
    }
  }
})

test('every example of the help is valid usage', async () => {
  await using service = await startHostile(401, { '*': { code: 'unauthenticated', detail: 'no' } })
  for (const [names] of leaves()) {
    const { stdout } = await use([...names, '--help'])
    const examples = [...stdout.split('\nExamples:')[1]!.matchAll(/^ {2}licensing (.*?)(?: [<>] .*)?$/gm)]
    expect(examples.length).toBeGreaterThan(0)
    for (const [, example] of examples) {
      // Profiles are tested with a home folder.
      if (/--profile|^logout/.test(example!)) continue
      const { code, stderr } = await use(example!.split(' '), service.env)
      expect([0, 1], `${example}: ${stderr}`).toContain(code)
    }
  }
})

test('a group alone lists its commands', async () => {
  const { commands } = theProgram()
  const groups = commands.filter((command) => command.commands.length > 0)
  expect(groups.map((group) => group.name())).toEqual([
    'licences',
    'plans',
    'checkout',
    'sales',
    'payments',
    'endpoints',
    'deliveries',
    'events',
    'keys',
    'members',
  ])
  for (const group of groups) {
    const { code, stdout, stderr } = await use([group.name()])
    expect([code, stdout]).toEqual([2, ''])
    for (const { name, description } of group.commands.map((one) => ({
      name: one.name(),
      description: one.description(),
    }))) {
      expect(stderr.replaceAll(/\s+/g, ' ')).toMatch(new RegExp(` ${name} .*${description.slice(0, 20)}`))
    }
    expect(await use([group.name(), '--help'])).toMatchObject({ code: 0, stderr: '' })
  }
  const { code, stdout } = await use(['--help'])
  expect(code).toBe(0)
  for (const command of commands)
    if (command.name() !== 'complete') expect(stdout).toContain(`\n  ${command.name()} `)
  expect(await use([])).toMatchObject({ code: 2, stdout: '' })
})

test('a refused key and a service that does not answer are reported with what to check', async () => {
  await using service = await startHostile(401, { '*': { code: 'unauthenticated', detail: 'no key' } })
  const refused = await use(['whoami'], service.env)
  expect([refused.code, refused.stderr]).toEqual([
    1,
    'error: no key (401 unauthenticated)\nrun licensing login, or check LICENSING_API_KEY or --key\n',
  ])
  const silent = await use(['whoami'], somewhere)
  expect(silent.code).toBe(1)
  expect(silent.stderr).toMatch(/ does not answer \(.*\)\ncheck that it runs, and LICENSING_URL or --url\n$/)
})

test('several invalid fields are listed; a single one is reported in the message alone', async () => {
  const errors = [
    { pointer: '/name', message: 'is required' },
    { pointer: '/code', message: 'is required' },
  ]
  const problem = { code: 'validation_failed', status: 422, detail: '/name: is required', errors }
  await using service = await startHostile(422, { '*': problem })
  expect((await use(['plans', 'create', 'pro'], service.env)).stderr).toBe(
    'error: these fields are not valid (422 validation_failed)\n  /name: is required\n  /code: is required\n',
  )
  await using other = await startHostile(422, { '*': { ...problem, errors: errors.slice(0, 1) } })
  expect((await use(['plans', 'create', 'pro'], other.env)).stderr).toBe(
    'error: /name: is required (422 validation_failed)\n',
  )
})

test('the help says which options are required', async () => {
  const { stdout } = await use(['licences', 'issue', '--help'])
  expect(stdout).toMatch(/--plan <plan> .*\(required\)\n/)
  expect(stdout).not.toMatch(/--max-seats .*\(required\)/)
})

test('--version and -v show the version of the package', async () => {
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8')) as {
    version: string
  }
  for (const flag of ['--version', '-v']) {
    expect(await use([flag])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
  }
})

test('the help of trigger lists the event types', async () => {
  const { stdout } = await use(['trigger', '--help'])
  for (const type of webhookEventTypes) expect(stdout).toContain(`\n  ${type}\n`)
})

// Control sequences of terminals, characters that change the direction of text, and line breaks.
const hostile = 'x\u001b]0;pwned\u0007\u001b[2J\u009b31m\u007f\u202e\u2066\r\nerror: forged\u2028'
const steering = /(?!\n)[\p{Cc}\u2028-\u202e\u2066-\u2069]/u

/** A server at the address of the service that answers everything with these texts. */
async function startHostile(status: number, answers: Readonly<Record<string, unknown>>) {
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
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
    requests,
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
  ['whoami', ['whoami'], { '*': { id: hostile, name: hostile, scopes: [hostile] } }],
  [
    'plans list',
    ['plans', 'list'],
    { '*': { data: [{ id: 'pln_1', code: hostile, name: hostile }], next_cursor: null } },
  ],
  [
    'endpoints list',
    ['endpoints', 'list'],
    { '*': { data: [{ id: 'whe_1', url: hostile, health: { pending: hostile } }], next_cursor: null } },
  ],
  [
    'keys list',
    ['keys', 'list'],
    { '*': { data: [{ id: 'key_1', name: hostile, scopes: [hostile] }], next_cursor: null } },
  ],
  [
    'members list',
    ['members', 'list'],
    { '*': { data: [{ id: 'usr_1', email: hostile, name: hostile, role: 'viewer' }], next_cursor: null } },
  ],
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
] as const)('%s prints no text that controls a terminal or forges a line', async (_name, args, answers) => {
  await using service = await startHostile(200, answers)
  const text = await use([...args], service.env)
  expect(text).toMatchObject({ code: 0, stderr: '' })
  expect(text.stdout).not.toMatch(steering)
  expect(text.stdout).not.toMatch(/^error: forged/m)
  // YAML has shorter escapes for some control characters.
  expect(text.stdout).toMatch(/\\(?:u001b|e)\]0;pwned/)
  const json = await use([...args, '--json'], service.env)
  expect(json.stdout).not.toMatch(steering)
  expect(JSON.stringify(JSON.parse(json.stdout))).toContain(JSON.stringify(hostile).slice(1, -1))
  // The program's own colours are the only control characters.
  const onTerminal = await use([...args], service.env, { isTTY: true })
  const withoutColours = onTerminal.stdout.replaceAll(/(?!\n)\p{Cc}\[\d+m/gu, '')
  expect(withoutColours).not.toMatch(steering)
  // The names of the columns can make them wider.
  const narrow = (lines: string) => lines.replaceAll(/ {2,}/g, '  ')
  expect(narrow(withoutColours.replace(/^ID .*\n/, ''))).toBe(narrow(text.stdout))
})

test('the text of a refusal cannot control a terminal or forge a line', async () => {
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

test('the lines of listen cannot control a terminal', async () => {
  await using service = await startHostile(200, {
    '*': { data: [{ id: 'evt_1', type: hostile, sequence: 1 }], next_after: 1 },
  })
  const stop = new AbortController()
  const printed: string[] = []
  const finished = run({
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
