import { randomUUID } from 'node:crypto'
import { execFile, execFileSync } from 'node:child_process'
import { open, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { keyFiles } from '@licensing/csv/testing/key-files'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TemporaryFolder } from '@licensing/test-support/temporary-folder'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand, settingsOf, startCommand, useTerminal } from './command-line.ts'
import { allRows, givenVendor } from './vendor.ts'
import type { Licence, Plan, Vendor } from './vendor.ts'

let stack: Stack
let folder: TemporaryFolder

beforeAll(async () => {
  folder = await makeTemporaryFolder()
  stack = await sharedStack()
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

const cli = ({ appId }: Vendor, ...args: string[]) => runCommand(settingsOf(stack, appId), ...args)
const apply = async (vendor: Vendor, text: string, ...more: string[]) => {
  const file = `${folder.path}/${randomUUID()}-licensing.yaml`
  await writeFile(file, text)
  return cli(vendor, 'apply', file, ...more)
}
const plansOf = (vendor: Vendor) => allRows<Plan>(stack.api, `${vendor.app}/plans`)
const definitionsOf = (vendor: Vendor) =>
  allRows<{ key: string; default: string }>(stack.api, `${vendor.app}/entitlement-defs`)

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
  const vendor = await givenVendor(stack)
  const dry = await apply(vendor, file, '--dry-run')
  expect(dry).toMatchObject({
    code: 0,
    stdout: '+ entitlement export_pdf\n+ entitlement seats\n+ plan basic\n+ plan pro\n',
  })
  expect(await plansOf(vendor)).toEqual([])
  expect((await apply(vendor, file)).stdout).toBe(dry.stdout)
  expect(await cli(vendor, 'export')).toEqual({ code: 0, stdout: file, stderr: '' })
  expect(await apply(vendor, file)).toEqual({ code: 0, stdout: '', stderr: 'nothing to change\n' })
})

test('the exported file is valid, whatever names the objects have', async () => {
  const vendor = await givenVendor(stack)
  for (const [code, name] of [
    ['1.10', ' '],
    ['1e3', 'two\nlines'],
    ['null', '😀'.repeat(200)],
  ]) {
    await vendor.plan({ code, name })
  }
  await stack.api.post(`${vendor.app}/entitlement-defs`, {
    body: { key: 'null', kind: 'limit', default: '-5', display_name: '\u2028' },
  })
  const exported = (await cli(vendor, 'export')).stdout
  expect(await apply(vendor, exported)).toEqual({ code: 0, stdout: '', stderr: 'nothing to change\n' })
  const another = await givenVendor(stack)
  expect((await apply(another, exported)).code).toBe(0)
  expect((await cli(another, 'export')).stdout).toBe(exported)
})

test('a text that looks like a number is kept as it is written, and a YAML alias is resolved', async () => {
  const vendor = await givenVendor(stack)
  const numbers = `entitlements:
  - { key: seats, kind: &kind limit, default: 3 }
  - { key: projects, kind: *kind }
plans:
  - { code: 1.10, name: 2.0, values: &values { seats: 10 } }
  - { code: 1.1, values: *values }
`
  expect((await apply(vendor, numbers)).code).toBe(0)
  const plans = await plansOf(vendor)
  expect(plans.map(({ code, name }) => [code, name])).toEqual([
    ['1.1', '1.1'],
    ['1.10', '2.0'],
  ])
  for (const { entitlements } of plans) expect(entitlements).toMatchObject([{ value: '10' }])
  expect((await apply(vendor, numbers)).stderr).toBe('nothing to change\n')
  for (const value of ['010', '1.0', '1e1', '0x10', '+5']) {
    const refused = await apply(vendor, `plans:\n  - code: 1.1\n    values: { seats: ${value} }\n`)
    expect(refused.code, value).toBe(1)
    expect(refused.stderr, value).toContain('licensing.yaml:3: ')
  }
})

test('trial days and metadata of a plan are applied, exported, kept if they are left out, and removed', async () => {
  const vendor = await givenVendor(stack)
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
  expect((await apply(vendor, text)).stdout).toBe('+ plan pro\n')
  expect((await cli(vendor, 'export')).stdout).toBe(text)
  expect((await apply(vendor, text)).stderr).toBe('nothing to change\n')
  expect((await apply(vendor, 'plans:\n  - code: pro\n')).stderr).toBe('nothing to change\n')
  const changed = await apply(
    vendor,
    'plans:\n  - code: pro\n    trial_days: 0\n    metadata: { sku: A-2, new: x }\n',
  )
  expect(changed.stdout).toBe(
    '~ plan pro: trial_days 14 → none, metadata.sku A-1 → A-2, metadata.new none → x, metadata.tier 2 → none\n',
  )
  const [plan] = await allRows<{ trial_days: number | null; metadata: object }>(
    stack.api,
    `${vendor.app}/plans`,
  )
  expect(plan).toMatchObject({ trial_days: null, metadata: { sku: 'A-2', new: 'x' } })
  for (const [wrong, named] of [
    [
      'trial_days: 367',
      'plans[0].trial_days must be a whole number from 1 to 366, or 0 for no trials, not "367"',
    ],
    [
      'trial_days: x',
      'plans[0].trial_days must be a whole number from 1 to 366, or 0 for no trials, not "x"',
    ],
    ['metadata: { a b: c }', 'plans[0].metadata.a b the name must match'],
    [`metadata: { a: ${'x'.repeat(501)} }`, 'plans[0].metadata.a must be at most 500 characters, not "xxx'],
  ]) {
    const refused = await apply(vendor, `plans:\n  - code: pro\n    ${wrong}\n`)
    expect(refused.stderr, wrong).toContain(`licensing.yaml:3: ${named}`)
  }
})

test('a value that is left out returns to the default, and objects that the file does not name stay', async () => {
  const vendor = await givenVendor(stack)
  await apply(vendor, file)
  const changed = await apply(vendor, 'plans:\n  - code: pro\n    values: { seats: 20 }\n', '--json')
  expect(changed.code).toBe(0)
  expect(JSON.parse(changed.stdout)).toEqual({
    changes: ['~ plan pro: values.export_pdf true → default, values.seats 10 → 20'],
    applied: true,
  })
  const exported = JSON.parse((await cli(vendor, 'export', '--json')).stdout) as object
  expect(exported).toMatchObject({
    entitlements: [{ key: 'export_pdf' }, { key: 'seats' }],
    plans: [
      { code: 'basic', status: 'active' },
      { code: 'pro', name: 'Pro', values: { seats: '20' } },
    ],
  })
  expect(exported).not.toHaveProperty('plans.1.values.export_pdf')
})

test('a changed entitlement is shown with its value before and after', async () => {
  const vendor = await givenVendor(stack)
  await apply(vendor, file)
  const changed =
    'entitlements:\n  - { key: seats, display_name: Places, default: 5 }\nplans:\n  - { code: basic, name: Small }\n'
  const shown =
    '~ entitlement seats: display_name Seats → Places, default 3 → 5\n~ plan basic: name Basic → Small\n'
  expect((await apply(vendor, changed, '--dry-run')).stdout).toBe(shown)
  expect((await apply(vendor, changed)).stdout).toBe(shown)
  expect((await apply(vendor, changed)).stderr).toBe('nothing to change\n')
})

test('a plan is retired and a definition deleted only if the file says so', async () => {
  const vendor = await givenVendor(stack)
  await apply(vendor, file)
  const last = 'entitlements: [{ key: seats, deleted: true }]\nplans: [{ code: basic, status: retired }]\n'
  expect((await apply(vendor, last)).stdout).toBe(
    '~ plan basic: status active → retired\n- entitlement seats\n',
  )
  expect((await definitionsOf(vendor)).map(({ key }) => key)).toEqual(['export_pdf'])
  expect((await plansOf(vendor)).find(({ code }) => code === 'basic')?.status).toBe('retired')
  expect((await apply(vendor, last)).stderr).toBe('nothing to change\n')
})

test('an invalid file is refused as a whole, and every invalid line is named', async () => {
  const vendor = await givenVendor(stack)
  const wrong = `entitlements:
  - key: fine
    kind: feature
  - key: Not Fine
    kind: colour
plans:
  - code: pro
    price: 3
`
  const misused = `entitlements:
  - { key: fine, kind: feature }
plans:
  - code: pro
    values:
      fine: 3
      other: 1
`
  const [refused, unknown, broken] = await Promise.all([
    apply(vendor, wrong),
    apply(vendor, misused, '--json'),
    apply(vendor, 'plans: [\n'),
  ])
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  for (const flaw of [
    '4: entitlements[1].key must match ^[a-z][a-z0-9_]*$, 64 characters at most, not "Not Fine"',
    '5: entitlements[1].kind must be feature or limit, not "colour"',
    '8: plans[0] unknown field price; known: code, name',
  ]) {
    expect(refused.stderr).toContain(`licensing.yaml:${flaw}`)
  }
  expect(unknown.code).toBe(1)
  expect(JSON.parse(unknown.stdout)).toMatchObject({
    code: 'invalid_file',
    errors: [
      { line: 6, key: 'plans[0].values.fine', message: expect.stringContaining('true or false, not "3"') },
      { line: 7, key: 'plans[0].values.other', message: expect.stringContaining('other') },
    ],
  })
  expect(broken.code).toBe(1)
  expect(broken.stderr).toMatch(/licensing\.yaml:\d+: /)
  expect(await definitionsOf(vendor)).toEqual([])
  expect(await plansOf(vendor)).toEqual([])
})

test('if the service refuses a change, apply stops and says what was changed, what was not, and what to do', async () => {
  const vendor = await givenVendor(stack)
  await apply(vendor, 'entitlements: [{ key: seats, kind: limit }]\n')
  await apply(vendor, 'entitlements: [{ key: seats, deleted: true }]\n')
  const again = (kind: string) => `entitlements:
  - { key: export_pdf, kind: feature }
  - { key: seats, kind: ${kind} }
plans:
  - { code: pro }
`
  const stopped = await apply(vendor, again('feature'))
  expect(stopped.code).toBe(1)
  expect(stopped.stderr).toContain('was a limit before it was deleted')
  expect(stopped.stderr).toMatch(/licensing\.yaml:3: stopped at: \+ entitlement seats\n/)
  expect(stopped.stderr).toContain('changed before it: + entitlement export_pdf\n')
  expect(stopped.stderr).toContain('not begun: + plan pro\n')
  expect(stopped.stderr).toContain('apply the file again')
  expect((await definitionsOf(vendor)).map(({ key }) => key)).toEqual(['export_pdf'])
  const asJson = await apply(vendor, again('feature'), '--json')
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    code: 'already_exists',
    status: 409,
    changes: [],
    stopped_at: { line: 3, change: '+ entitlement seats' },
    not_begun: ['+ plan pro'],
  })
  expect(await apply(vendor, again('limit'))).toMatchObject({
    code: 0,
    stdout: '+ entitlement seats\n+ plan pro\n',
  })
})

test('apply --dry-run always ends, even if the service does not answer or the file or a pipe never ends', async () => {
  const vendor = await givenVendor(stack)
  const path = `${folder.path}/${randomUUID()}`
  await writeFile(`${path}.yaml`, file)
  execFileSync('mkfifo', [`${path}.fifo`])
  const settings = settingsOf(stack, vendor.appId)
  const dryRun = async (environment: Record<string, string>, name: string, timeoutSeconds = '1') => {
    const start = performance.now()
    const flags = ['--dry-run', '--timeout', timeoutSeconds, '--json']
    await using command = startCommand(environment, 'apply', name, ...flags)
    const { code, stdout } = await command.finished
    expect((performance.now() - start) / 1000).toBeLessThan(20)
    return { code, answer: JSON.parse(stdout) as object }
  }
  await using silent = await startServer(() => undefined)
  let pages = 0
  await using endless = await startServer((response) => {
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ data: [], next_cursor: `page-${pages++}` }))
  })
  for (const { url } of [silent, endless]) {
    const late = await dryRun({ ...settings, LICENSING_URL: url }, `${path}.yaml`)
    expect(late).toMatchObject({ code: 1, answer: { code: 'timeout' } })
  }
  expect(await dryRun(settings, `${path}.fifo`)).toMatchObject({ code: 1, answer: { code: 'timeout' } })
  const writer = await open(`${path}.fifo`, 'r+')
  expect(await dryRun(settings, `${path}.fifo`)).toMatchObject({ code: 1, answer: { code: 'timeout' } })
  await writer.write(file)
  await writer.close()
  // These end by themselves, on a busy machine not within a second.
  const zeros = await dryRun(settings, '/dev/zero', '60')
  expect(zeros).toMatchObject({ code: 1, answer: { code: 'file_unreadable' } })
  expect((await dryRun(settings, `${path}.yaml`, '60')).code).toBe(0)
  expect(await plansOf(vendor)).toEqual([])
})

test('a file can be a pipe of the shell', async () => {
  const vendor = await givenVendor(stack)
  const program = new URL('../../../cli/src/main.ts', import.meta.url).pathname
  const script = `'${process.execPath}' '${program}' apply <(sleep 0.5; echo 'plans: [{ code: piped }]') --dry-run`
  const env = { ...commandEnvironment(), ...settingsOf(stack, vendor.appId) }
  const { stdout } = await promisify(execFile)('bash', ['-c', script], { env })
  expect(stdout).toBe('+ plan piped\n')
})

async function startServer(answer: (response: ServerResponse) => void) {
  const server = createServer((_request, response) => answer(response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

test('a long import shows its progress on a terminal, and --json lists the refused rows', async () => {
  const vendor = await givenVendor(stack)
  await vendor.plan({ code: 'pro' })
  const rows = Array.from({ length: 600 }, (_, at) => `long-${at},c,${at === 7 ? 'none' : 'pro'}`)
  const path = `${folder.path}/${randomUUID()}.csv`
  await writeFile(path, ['legacy_key,external_ref,plan_code', ...rows].join('\n'))
  await using command = useTerminal(settingsOf(stack, vendor.appId), 'import', path)
  const { code, stdout } = await command.finished
  expect(code).toBe(1)
  expect(stdout).toContain(
    '\r\u001b[K500 of 600 rows were imported\r\u001b[K600 of 600 rows were imported\r\u001b[K',
  )
  expect(stdout).toContain('599 created, 0 existing, 1 failed')
  const again = await cli(vendor, 'import', path, '--json')
  expect(JSON.parse(again.stdout)).toEqual({
    created: 0,
    existing: 599,
    failed: 1,
    refused: [{ line: 9, reason: 'no plan has the code none' }],
  })
})

const importFile = async (vendor: Vendor, text: string | Uint8Array, ...more: string[]) => {
  const path = `${folder.path}/${randomUUID()}.csv`
  await writeFile(path, text)
  const finished = await cli(vendor, 'import', path, ...more)
  return { ...finished, stderr: finished.stderr.replaceAll(`${path}:`, 'line ') }
}

test('a file with more rows than one call allows is imported, and a second import finds all rows', async () => {
  const vendor = await givenVendor(stack)
  await vendor.plan({ code: 'pro' })
  const rows = Array.from({ length: 501 }, (_, at) => `pro,"customer ""${at}""",old-${at}`)
  const text = `\uFEFFplan_code,external_ref,legacy_key\r\n${rows.join('\r\n')}`
  const first = await importFile(vendor, text, '--json')
  expect(first).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(first.stdout)).toEqual({ created: 501, existing: 0, failed: 0, refused: [] })
  const licences = await allRows<Licence>(stack.api, `${vendor.app}/licences`)
  expect(licences).toHaveLength(501)
  expect(licences.map((licence) => licence.external_ref)).toContain('customer "500"')
  const again = await importFile(vendor, text)
  expect(again).toEqual({ code: 0, stdout: '0 created, 501 existing, 0 failed\n', stderr: '' })
})

test('each invalid row is named with its line and reason, and all others are imported', async () => {
  const vendor = await givenVendor(stack)
  await vendor.plan({ code: 'pro' })
  const retired = await vendor.plan({ code: 'old' })
  await stack.api.post(`${vendor.app}/plans/${retired.id}/archive`)
  const finished = await importFile(
    vendor,
    `legacy_key,external_ref,plan_code,note
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
`,
  )
  expect(finished).toMatchObject({ code: 1, stdout: '2 created, 0 existing, 7 failed\n' })
  const reasons = new Map(
    finished.stderr
      .trimEnd()
      .split('\n')
      .map((line) => [Number(/^line (\d+): /.exec(line)![1]), line]),
  )
  expect([...reasons.keys()].toSorted((a, b) => a - b)).toEqual([3, 4, 6, 7, 8, 9, 12])
  expect(reasons.get(3)).toBe('line 3: no plan has the code gone')
  expect(reasons.get(8)).toBe('line 8: has 2 values where the first line has 4')
  const licences = await allRows<Licence>(stack.api, `${vendor.app}/licences`)
  expect(licences.map((licence) => licence.external_ref).toSorted()).toEqual(['c1', 'c8'])
  const known = await importFile(vendor, 'legacy_key,external_ref,plan_code\nk1,c1,gone\n')
  expect(known).toMatchObject({ code: 0, stdout: '0 created, 1 existing, 0 failed\n' })
})

test('without a terminal a long import prints a line after ten seconds; after Ctrl-C it says how many rows were imported', async () => {
  const rows = Array.from({ length: 600 }, (_, at) => `long-${at},c,pro`)
  const path = `${folder.path}/${randomUUID()}.csv`
  await writeFile(path, ['legacy_key,external_ref,plan_code', ...rows].join('\n'))
  const plans = { data: [{ id: 'pln_1', code: 'pro' }], next_cursor: null }
  const items = rows.slice(0, 500).map(() => ({ result: 'created', error: null }))
  const answers = [plans, { items }]
  await using service = await startServer((response) => {
    const answer = answers.shift()
    if (answer === undefined) return
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(answer))
  })
  const settings = { LICENSING_URL: service.url, LICENSING_API_KEY: 'lsk_some-key', LICENSING_APP: 'app_1' }
  await using command = startCommand(settings, 'import', path)
  await eventually(() => expect(command.stderr()).toBe('500 of 600 rows were imported\n'))
  const start = performance.now()
  const { code, stdout, stderr } = await command.stop()
  // The service never answers the second call.
  expect((performance.now() - start) / 1000).toBeLessThan(10)
  expect([code, stdout]).toEqual([1, ''])
  expect(stderr).toBe('500 of 600 rows were imported\n500 of 600 rows were imported; run the command again\n')
})

test.each(keyFiles)(
  'a file of keys: $name',
  async ({ bytes, refused, rows = [], flaws = [], trimmed = [] }) => {
    const vendor = await givenVendor(stack)
    await vendor.plan({ code: 'pro' })
    const references = async () => {
      const licences = await allRows<Licence>(stack.api, `${vendor.app}/licences`)
      return licences.map((licence) => licence.external_ref).toSorted()
    }
    const expected = rows.map(([, reference]) => reference).toSorted()
    for (const flag of [['--dry-run'], []]) {
      const finished = await importFile(vendor, bytes, ...flag, '--json')
      if (refused !== undefined) {
        expect(finished.code).toBe(1)
        expect(JSON.parse(finished.stdout)).toMatchObject({
          code: 'invalid_file',
          detail: expect.stringContaining(refused),
        })
        expect(await references()).toEqual([])
        continue
      }
      expect(finished.code).toBe(flaws.length === 0 ? 0 : 1)
      expect(JSON.parse(finished.stdout)).toEqual({
        created: rows.length,
        existing: 0,
        failed: flaws.length,
        refused: flaws.map(([line, words]) => ({ line, reason: expect.stringContaining(words) })),
      })
      for (const [line] of flaws) expect(finished.stderr).toMatch(new RegExp(`^line ${line}: `, 'm'))
      for (const [, words] of flaws) expect(finished.stderr).toContain(words)
      expect(finished.stderr.includes('blanks around values were removed')).toBe(trimmed.length > 0)
      for (const line of trimmed) expect(finished.stderr).toMatch(new RegExp(`removed in .*\\b${line}\\b`))
      expect(await references()).toEqual(flag.length > 0 ? [] : expected)
    }
    for (const [key, reference] of rows) {
      const migrated = await stack.api.post<{ licence_id: string }>(`${vendor.app}/migrate`, {
        key: null,
        body: { legacy_key: key },
      })
      expect(migrated.status, key).toBe(200)
      const { body } = await stack.api.get<Licence>(`/v1/licences/${migrated.body.licence_id}`)
      expect(body.external_ref).toBe(reference)
    }
  },
)

test('a file for apply in another encoding is refused, and one in UTF-16 is read', async () => {
  const vendor = await givenVendor(stack)
  const path = `${folder.path}/${randomUUID()}.yaml`
  const text = 'plans:\n  - { code: pro, name: Müller }\n'
  await writeFile(path, Buffer.from(text, 'latin1'))
  const refused = await cli(vendor, 'apply', path)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain(`${path}:2: the file is not UTF-8, it looks like Windows-1252`)
  expect(await plansOf(vendor)).toEqual([])
  await writeFile(path, Buffer.from(`\uFEFF${text}`, 'utf16le'))
  expect((await cli(vendor, 'apply', path)).code).toBe(0)
  expect(await plansOf(vendor)).toMatchObject([{ name: 'Müller' }])
})

test('a file without the columns or a missing file imports nothing', async () => {
  const vendor = await givenVendor(stack)
  const wrong = await importFile(vendor, 'legacy_key,customer\na,b\n', '--json')
  expect(wrong.code).toBe(1)
  expect(JSON.parse(wrong.stdout)).toMatchObject({ code: 'invalid_file' })
  const missing = await cli(vendor, 'import', `${folder.path}/none.csv`)
  expect(missing).toMatchObject({ code: 1, stdout: '' })
  expect(missing.stderr).toContain('cannot be read (ENOENT)')
  expect((await importFile(vendor, 'legacy_key;external_ref;plan_code\n')).code).toBe(0)
})
