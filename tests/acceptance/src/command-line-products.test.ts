import { randomUUID } from 'node:crypto'
import { execFile, execFileSync } from 'node:child_process'
import { open, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { keyFiles } from '@licensing/csv/testing/key-files'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { commandLine, settingsOf, startCommand, useTerminal } from './command-line.ts'
import { allRows, expectStatus, givenFolder, givenStack, givenVendor } from './vendor.ts'
import type { Plan } from './vendor.ts'

const stack = await givenStack()
const folder = await givenFolder()

/** An application, and functions that run commands for it. */
async function given() {
  const vendor = await givenVendor(stack)
  const settings = settingsOf(stack, vendor.appId)
  const { text } = commandLine(settings)
  /** Runs a command with a file. In its messages, `FILE` stands for the name of the file. */
  const withFile = async (command: string, content: string | Uint8Array, ...flags: string[]) => {
    const path = `${folder.path}/${randomUUID()}`
    await writeFile(path, content)
    const { code, stdout, stderr } = await text(command, path, ...flags)
    return { code, stdout, stderr: stderr.replaceAll(path, 'FILE') }
  }
  const apply = (content: string | Uint8Array, ...flags: string[]) => withFile('apply', content, ...flags)
  return {
    ...vendor,
    settings,
    text,
    apply,
    /** Applies a file and returns the changes that the command shows. */
    changes: async (content: string) => (await apply(content)).stdout,
    importFile: (content: string | Uint8Array, ...flags: string[]) => withFile('import', content, ...flags),
    exported: async () => (await text('export')).stdout,
    plans: () => allRows<Plan>(stack.api, `${vendor.app}/plans`),
    definitions: () => allRows<{ key: string }>(stack.api, `${vendor.app}/entitlement-defs`),
    references: async () => (await vendor.licences()).map(({ external_ref: each }) => each).toSorted(),
  }
}

const unchanged = { code: 0, stdout: '', stderr: 'nothing to change\n' }

const file = `entitlements:
  - key: export_pdf
    kind: feature
    display_name: Export to PDF
    default: "false"
  - key: seats
    kind: limit
    display_name: Seats
    default: "3"
plans:
  - code: basic
    name: Basic
    status: active
    values: {}
  - code: pro
    name: Pro
    status: active
    values:
      export_pdf: "true"
      seats: "10"
`

test('a file is applied after its changes were shown, is not applied twice, and is exported unchanged', async () => {
  const { apply, changes, exported, plans } = await given()
  const dry = await apply(file, '--dry-run')
  expect(dry.stdout).toBe('+ entitlement export_pdf\n+ entitlement seats\n+ plan basic\n+ plan pro\n')
  expect(await plans()).toEqual([])
  expect(await changes(file)).toBe(dry.stdout)
  expect(await exported()).toBe(file)
  expect(await apply(file)).toEqual(unchanged)
})

test('the exported file is valid, whatever names the objects have', async () => {
  const { api, app, plan, exported, apply } = await given()
  await plan({ code: '1.10', name: ' ' })
  await plan({ code: '1e3', name: 'two\nlines' })
  await plan({ code: 'null', name: '😀'.repeat(200) })
  const odd = { key: 'null', kind: 'limit', default: '-5', display_name: '\u2028' }
  await api.post(`${app}/entitlement-defs`, { body: odd })
  const whole = await exported()
  expect(await apply(whole)).toEqual(unchanged)
  const another = await given()
  expect((await another.apply(whole)).code).toBe(0)
  expect(await another.exported()).toBe(whole)
})

test('a text that looks like a number is kept as it is written, and a YAML alias is resolved', async () => {
  const { apply, plans } = await given()
  const numbers = `entitlements:
  - { key: seats, kind: &kind limit, default: 3 }
  - { key: projects, kind: *kind }
plans:
  - { code: 1.10, name: 2.0, values: &values { seats: 10 } }
  - { code: 1.1, values: *values }
`
  expect((await apply(numbers)).code).toBe(0)
  expect(await plans()).toMatchObject([
    { code: '1.1', name: '1.1', entitlements: [{ value: '10' }] },
    { code: '1.10', name: '2.0', entitlements: [{ value: '10' }] },
  ])
  expect(await apply(numbers)).toEqual(unchanged)
  for (const value of ['010', '1.0', '1e1', '0x10', '+5']) {
    const refused = await apply(`plans:\n  - code: 1.1\n    values: { seats: ${value} }\n`)
    expect(refused, value).toMatchObject({ code: 1, stderr: expect.stringContaining('FILE:3: ') as string })
  }
})

test('trial days and metadata of a plan are applied, exported, kept if they are left out, and removed', async () => {
  const { apply, changes, exported, plans } = await given()
  const text = `entitlements: []
plans:
  - code: pro
    name: Pro
    status: active
    values: {}
    trial_days: 14
    metadata:
      sku: A-1
      tier: "2"
`
  expect(await changes(text)).toBe('+ plan pro\n')
  expect(await exported()).toBe(text)
  for (const same of [text, 'plans:\n  - code: pro\n']) expect(await apply(same)).toEqual(unchanged)
  const next = 'plans:\n  - code: pro\n    trial_days: 0\n    metadata: { sku: A-2, new: x }\n'
  expect(await changes(next)).toBe(
    '~ plan pro: trial_days 14 → none, metadata.sku A-1 → A-2, metadata.new none → x, metadata.tier 2 → none\n',
  )
  expect(await plans()).toMatchObject([{ trial_days: null, metadata: { sku: 'A-2', new: 'x' } }])
  const days = 'trial_days must be a whole number from 1 to 366, or 0 for no trials, not'
  for (const [wrong, named] of [
    ['trial_days: 367', `${days} "367"`],
    ['trial_days: x', `${days} "x"`],
    ['metadata: { a b: c }', 'metadata.a b the name must match'],
    [`metadata: { a: ${'x'.repeat(501)} }`, 'metadata.a must be at most 500 characters, not "xxx'],
  ]) {
    const refused = await apply(`plans:\n  - code: pro\n    ${wrong}\n`)
    expect(refused.stderr, wrong).toContain(`FILE:3: plans[0].${named}`)
  }
})

test('a changed entitlement is shown with both values, a value that is left out returns to the default, and other objects stay', async () => {
  const { apply, changes, text } = await given()
  await apply(file)
  const changed = `entitlements:
  - { key: seats, display_name: Places, default: 5 }
plans:
  - { code: basic, name: Small }
`
  const shown =
    '~ entitlement seats: display_name Seats → Places, default 3 → 5\n~ plan basic: name Basic → Small\n'
  expect((await apply(changed, '--dry-run')).stdout).toBe(shown)
  expect(await changes(changed)).toBe(shown)
  expect(await apply(changed)).toEqual(unchanged)

  const less = await apply('plans:\n  - code: pro\n    values: { seats: 20 }\n', '--json')
  expect(JSON.parse(less.stdout)).toEqual({
    changes: ['~ plan pro: values.export_pdf true → default, values.seats 10 → 20'],
    applied: true,
  })
  const exported = JSON.parse((await text('export --json')).stdout) as object
  expect(exported).toMatchObject({
    entitlements: [{ key: 'export_pdf' }, { key: 'seats' }],
    plans: [{ code: 'basic' }, { code: 'pro', name: 'Pro', values: { seats: '20' } }],
  })
  expect(exported).not.toHaveProperty('plans.1.values.export_pdf')
})

test('a plan is retired and a definition deleted only if the file says so', async () => {
  const { apply, changes, definitions, plans } = await given()
  await apply(file)
  const last = 'entitlements: [{ key: seats, deleted: true }]\nplans: [{ code: basic, status: retired }]\n'
  expect(await changes(last)).toBe('~ plan basic: status active → retired\n- entitlement seats\n')
  expect((await definitions()).map(({ key }) => key)).toEqual(['export_pdf'])
  expect((await plans()).find(({ code }) => code === 'basic')?.status).toBe('retired')
  expect(await apply(last)).toEqual(unchanged)
})

test('an invalid file is refused as a whole, and every invalid line is named', async () => {
  const { apply, definitions, plans } = await given()
  const refused = await apply(`entitlements:
  - key: fine
    kind: feature
  - key: Not Fine
    kind: colour
plans:
  - code: pro
    price: 3
`)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  for (const flaw of [
    '4: entitlements[1].key must match ^[a-z][a-z0-9_]*$, 64 characters at most, not "Not Fine"',
    '5: entitlements[1].kind must be feature or limit, not "colour"',
    '8: plans[0] unknown field price; known: code, name',
  ]) {
    expect(refused.stderr).toContain(`FILE:${flaw}`)
  }
  const [first, second] = [file, file].map((text) => text.trimEnd())
  const twice = await apply(`${first}\n---\n${second}\n`)
  const at = first!.split('\n').length + 1
  expect(twice).toMatchObject({ code: 1, stdout: '' })
  expect(twice.stderr).toContain(
    `FILE:${at}: a second YAML document begins here: put each into a file of its own`,
  )
  const misused = `entitlements:
  - { key: fine, kind: feature }
plans:
  - code: pro
    values:
      fine: 3
      other: 1
`
  const unknown = await apply(misused, '--json')
  expect(unknown.code).toBe(1)
  const { code, errors } = JSON.parse(unknown.stdout) as { code: string; errors: { message: string }[] }
  expect(code).toBe('invalid_file')
  expect(errors).toMatchObject([
    { line: 6, key: 'plans[0].values.fine' },
    { line: 7, key: 'plans[0].values.other' },
  ])
  expect(errors[0]!.message).toContain('true or false, not "3"')
  const broken = await apply('plans: [\n')
  expect(broken.code).toBe(1)
  expect(broken.stderr).toMatch(/FILE:\d+: /)

  const name = 'plans:\n  - { code: pro, name: Müller }\n'
  const latin = await apply(Buffer.from(name, 'latin1'))
  expect(latin).toMatchObject({ code: 1, stdout: '' })
  expect(latin.stderr).toContain('FILE:2: the file is not UTF-8, it looks like Windows-1252')
  expect([await definitions(), await plans()]).toEqual([[], []])
  await apply(Buffer.from(`\uFEFF${name}`, 'utf16le'))
  expect(await plans()).toMatchObject([{ name: 'Müller' }])
})

test('if the service refuses a change, apply stops and says what was changed, what was not, and what to do', async () => {
  const { apply, changes, definitions } = await given()
  await apply('entitlements: [{ key: seats, kind: limit }]\n')
  await apply('entitlements: [{ key: seats, deleted: true }]\n')
  const again = (kind: string) => `entitlements:
  - { key: export_pdf, kind: feature }
  - { key: seats, kind: ${kind} }
plans:
  - { code: pro }
`
  const stopped = await apply(again('feature'))
  expect(stopped.code).toBe(1)
  for (const said of [
    'was a limit before it was deleted',
    'FILE:3: stopped at: + entitlement seats\n',
    'changed before it: + entitlement export_pdf\n',
    'not begun: + plan pro\n',
    'apply the file again',
  ]) {
    expect(stopped.stderr).toContain(said)
  }
  expect((await definitions()).map(({ key }) => key)).toEqual(['export_pdf'])
  const asJson = await apply(again('feature'), '--json')
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    code: 'already_exists',
    status: 409,
    changes: [],
    stopped_at: { line: 3, change: '+ entitlement seats' },
    not_begun: ['+ plan pro'],
  })
  expect(await changes(again('limit'))).toBe('+ entitlement seats\n+ plan pro\n')
})

test('apply --dry-run always ends, even if the service does not answer or the file or a pipe never ends', async () => {
  const { settings, plans } = await given()
  const path = `${folder.path}/${randomUUID()}`
  await writeFile(`${path}.yaml`, file)
  for (const pipe of ['silent', 'endless']) execFileSync('mkfifo', [`${path}.${pipe}`])
  const dryRun = async (name: string, url = stack.gatewayUrl, timeoutSeconds = '1') => {
    const flags = ['--dry-run', '--timeout', timeoutSeconds, '--json', '--url', url]
    await using command = startCommand(settings, 'apply', name, ...flags)
    const { code, stdout } = await command.finished
    return { code, answer: JSON.parse(stdout) as object }
  }
  await using silent = await startServer(() => undefined)
  let pages = 0
  await using endless = await startServer(() => ({ data: [], next_cursor: `page-${pages++}` }))
  const writer = await open(`${path}.endless`, 'r+')
  const start = performance.now()
  const late = await Promise.all([
    dryRun(`${path}.yaml`, silent.url),
    dryRun(`${path}.yaml`, endless.url),
    dryRun(`${path}.silent`),
    dryRun(`${path}.endless`),
  ])
  expect((performance.now() - start) / 1000).toBeLessThan(20)
  for (const each of late) expect(each).toMatchObject({ code: 1, answer: { code: 'timeout' } })
  await writer.close()
  // These end by themselves, on a busy machine not within a second.
  const zeros = await dryRun('/dev/zero', undefined, '60')
  expect(zeros).toMatchObject({ code: 1, answer: { code: 'file_unreadable' } })
  expect((await dryRun(`${path}.yaml`, undefined, '60')).code).toBe(0)
  expect(await plans()).toEqual([])
})

test('a file can be a pipe of the shell', async () => {
  const { settings } = await given()
  const program = fileURLToPath(new URL('../../../cli/src/main.ts', import.meta.url))
  const script = `'${process.execPath}' '${program}' apply <(sleep 0.5; echo 'plans: [{ code: piped }]') --dry-run`
  const env = { ...commandEnvironment(), ...settings }
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env })
  expect(stdout).toBe('+ plan piped\n')
})

/** A server that answers every request with the JSON of `answer`. Undefined: it does not answer. */
async function startServer(answer: () => unknown) {
  let requests = 0
  const server = createServer((_request, response: ServerResponse) => {
    requests += 1
    const body = answer()
    if (body === undefined) return
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(body))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests: () => requests,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** A file of more rows than one call allows. The row in line 9 is of the given plan. */
const longFile = (plan = 'pro') =>
  [
    'legacy_key,external_ref,plan_code',
    ...Array.from({ length: 600 }, (_, at) => `long-${at},c,${at === 7 ? plan : 'pro'}`),
  ].join('\n')

test('a long import shows its progress on a terminal, a second import finds all rows, and --json lists the refused rows', async () => {
  const { settings, plan, importFile, references } = await given()
  await plan({ code: 'pro' })
  const path = `${folder.path}/${randomUUID()}.csv`
  await writeFile(path, longFile('none'))
  await using command = useTerminal(settings, 'import', path)
  const { code, stdout } = await command.finished
  expect(code).toBe(1)
  expect(stdout).toContain(
    '\r\u001b[K500 of 600 rows were imported\r\u001b[K600 of 600 rows were imported\r\u001b[K',
  )
  expect(stdout).toContain('599 created, 0 existing, 1 failed')
  const again = await importFile(longFile('none'), '--json')
  const refused = [{ line: 9, reason: 'no plan has the code “none”' }]
  expect(JSON.parse(again.stdout)).toEqual({ created: 0, existing: 599, failed: 1, refused })
  expect(await references()).toHaveLength(599)
})

test('each invalid row is named with its line and reason, and all others are imported', async () => {
  const { api, app, plan, importFile, references } = await given()
  await plan({ code: 'pro' })
  await api.post(`${app}/plans/${(await plan({ code: 'old' })).id}/archive`)
  const finished = await importFile(`legacy_key,external_ref,plan_code,note
k1,c1,pro,
k2,c2,gone,
k3,c3,old,

,c4,pro,
k5,${'x'.repeat(3000)},pro,
k6,c6
k7,c"7,pro,
"k8",c8,pro,"two
lines"
k9,c9,gone,
`)
  expect(finished).toMatchObject({ code: 1, stdout: '2 created, 0 existing, 7 failed\n' })
  const lines = [...finished.stderr.matchAll(/^FILE:(\d+): /gm)].map(([, line]) => Number(line))
  expect(lines.toSorted((a, b) => a - b)).toEqual([3, 4, 6, 7, 8, 9, 12])
  expect(finished.stderr).toContain('FILE:3: no plan has the code “gone”\n')
  expect(finished.stderr).toContain('FILE:8: has 2 values where the first line has 4\n')
  expect(await references()).toEqual(['c1', 'c8'])
  const known = await importFile('legacy_key,external_ref,plan_code\nk1,c1,gone\n')
  expect(known).toMatchObject({ code: 0, stdout: '0 created, 1 existing, 0 failed\n' })
})

test('after Ctrl-C an import ends at once and says how many rows were imported', async () => {
  const path = `${folder.path}/${randomUUID()}.csv`
  await writeFile(path, longFile())
  const plans = { data: [{ id: 'pln_1', code: 'pro' }], next_cursor: null }
  const items = Array.from({ length: 500 }, () => ({ result: 'created', error: null }))
  const answers: unknown[] = [plans, { items }]
  // The service never answers the second call of the import.
  await using service = await startServer(() => answers.shift())
  const settings = { LICENSING_URL: service.url, LICENSING_API_KEY: 'lsk_some-key', LICENSING_APP: 'app_1' }
  await using command = startCommand(settings, 'import', path)
  await eventually(() => expect(service.requests()).toBe(3))
  const start = performance.now()
  const finished = await command.stop()
  expect((performance.now() - start) / 1000).toBeLessThan(10)
  const stderr = '500 of 600 rows were imported; run the command again\n'
  expect(finished).toEqual({ code: 1, stdout: '', stderr })
})

// docs/guides/import.md, "1. Prepare a CSV file".
test('a file may give ends, limits and metadata; a date is the end of that day, UTC; other columns are named', async () => {
  const { plan, importFile, licences } = await given()
  await plan({ code: 'pro' })
  const columns =
    'legacy_key,external_ref,plan_code,expires_on,updates_until,max_activations,metadata.crm,metadata.Owner'
  const content = [
    `${columns},seats,note`,
    'KEY-1,c-1,pro,2099-01-31,2030-02-28,3,A-17,ann,9,',
    'KEY-2,c-2,pro,2099-01-31T12:00:00+01:00,,,,,,',
    'KEY-3,c-3,pro,2020-01-31,,,,,,',
    'KEY-4,c-4,pro,2099-02-30,,,,,,',
    'KEY-5,c-5,pro,,,0,,,,',
    `KEY-6,c-6,pro,,,,,${'x'.repeat(501)},,`,
    'KEY-7,c-7,pro,,,many,,,,',
  ].join('\n')
  for (const flag of [['--dry-run'], []]) {
    const finished = await importFile(content, ...flag, '--json')
    expect(finished.code).toBe(1)
    const lines = [
      'FILE: 2 columns are ignored: seats, note',
      'FILE:8: max_activations many is no whole number',
      'FILE:4: expires_on must be in the future',
      'FILE:5: expires_on must be an ISO 8601 timestamp such as 2027-01-31T00:00:00.000Z',
      'FILE:6: restrictions/max_activations must be at least 1',
      'FILE:7: metadata/Owner must have 0 to 500 characters',
    ]
    expect(finished.stderr.split('\n').filter((line) => line.startsWith('FILE'))).toEqual(lines)
    expect(JSON.parse(finished.stdout)).toMatchObject({ created: 2, existing: 0, failed: 5 })
    const none = { expires_on: null, updates_until: null, restrictions: null, metadata: {} }
    const expected = [
      { ...none, external_ref: 'c-2', expires_on: '2099-01-31T11:00:00.000Z' },
      {
        external_ref: 'c-1',
        expires_on: '2099-01-31T23:59:59.999Z',
        updates_until: '2030-02-28T23:59:59.999Z',
        restrictions: { max_activations: 3 },
        metadata: { crm: 'A-17', Owner: 'ann' },
      },
    ]
    const created = (await licences()).toSorted((a, b) => (a.external_ref < b.external_ref ? 1 : -1))
    expect(created).toMatchObject(flag.length > 0 ? [] : expected)
    expect(created).toHaveLength(flag.length > 0 ? 0 : 2)
  }
})

// The tests of `@licensing/csv` read every file.
const usual = [
  'Windows-1252',
  'blanks and invisible characters around values',
  'too few and too many values',
  'one key of two customers',
  'all columns, and others',
]

test.each(isFull ? keyFiles : keyFiles.filter(({ name }) => usual.includes(name)))(
  'a file of keys: $name',
  async ({ bytes, refused, rows = [], flaws = [], trimmed = [], ignored = [] }) => {
    const { api, app, plan, detail, importFile, references } = await given()
    await plan({ code: 'pro' })
    for (const flag of [['--dry-run'], []]) {
      const finished = await importFile(bytes, ...flag, '--json')
      const answer = JSON.parse(finished.stdout) as object
      if (refused !== undefined) {
        const detailed = expect.stringContaining(refused) as string
        expect(answer).toMatchObject({ code: 'invalid_file', detail: detailed })
        expect([finished.code, await references()]).toEqual([1, []])
        continue
      }
      expect(finished.code).toBe(flaws.length === 0 ? 0 : 1)
      expect(answer).toEqual({
        created: rows.length,
        existing: 0,
        failed: flaws.length,
        refused: flaws.map(([line, words]) => ({ line, reason: expect.stringContaining(words) as string })),
      })
      for (const [line] of flaws) expect(finished.stderr).toMatch(new RegExp(`^FILE:${line}: `, 'm'))
      for (const [, words] of flaws) expect(finished.stderr).toContain(words)
      expect(finished.stderr.includes('ignored')).toBe(ignored.length > 0)
      for (const name of ignored)
        expect(finished.stderr).toMatch(
          new RegExp(`^FILE: .* ignored.*\\b${name}\\b|^FILE: .*\\b${name}\\b.* ignored$`, 'm'),
        )
      expect(finished.stderr.includes('blanks around values were removed')).toBe(trimmed.length > 0)
      for (const line of trimmed) expect(finished.stderr).toMatch(new RegExp(`removed in .*\\b${line}\\b`))
      expect(await references()).toEqual(flag.length > 0 ? [] : rows.map(([, each]) => each).toSorted())
    }
    for (const [key, reference] of rows) {
      const body = { legacy_key: key }
      const migrated = await api.post<{ licence_id: string }>(`${app}/migrate`, { key: null, body })
      expectStatus(migrated, 200)
      expect((await detail(migrated.body.licence_id)).external_ref).toBe(reference)
    }
  },
)

test('a file without the columns or a missing file imports nothing', async () => {
  const { importFile, text } = await given()
  const wrong = await importFile('legacy_key,customer\na,b\n', '--json')
  expect(wrong.code).toBe(1)
  expect(JSON.parse(wrong.stdout)).toMatchObject({ code: 'invalid_file' })
  const stderr = 'error: /none.csv cannot be read (ENOENT)\n'
  for (const command of ['import', 'licences import']) {
    expect(await text(`${command} /none.csv`)).toEqual({ code: 1, stdout: '', stderr })
  }
  expect((await importFile('legacy_key;external_ref;plan_code\n')).code).toBe(0)
})
