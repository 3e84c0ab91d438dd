import { randomUUID } from 'node:crypto'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runCommand, settingsOf, useTerminal } from './command-line.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { givenVendor } from './vendor.ts'
import type { Licence, Plan, Vendor } from './vendor.ts'

let market: Market
let stack: Stack
let vendor: Vendor
let environment: Record<string, string>

beforeAll(async () => {
  market = await startMarket()
  stack = market.stack
  vendor = await givenVendor(stack)
  environment = settingsOf(stack, vendor.appId)
  await vendor.define('seats', 'limit')
  await vendor.define('export_pdf', 'feature')
  await vendor.plan({ code: 'pro' })
})
afterAll(async () => {
  await market[Symbol.asyncDispose]()
})

/** Runs a command with `--json` and parses its output. */
async function json<Answer>(...args: string[]): Promise<Answer> {
  const { code, stdout, stderr } = await runCommand(environment, ...args, '--json')
  expect(code, `${args.join(' ')}: ${stderr}`).toBe(0)
  return JSON.parse(stdout) as Answer
}
const text = async (...args: string[]) => runCommand(environment, ...args)
const licenceOf = async (id: string) => (await stack.api.get<Licence>(`/v1/licences/${id}`)).body

test('licences issue takes the code or id of the plan, and a repeat with the same key issues no second licence', async () => {
  const reference = randomUUID()
  const issue = [
    'licences',
    'issue',
    '--plan',
    'pro',
    '--external-ref',
    reference,
    '--idempotency-key',
    reference,
  ]
  const fields = [
    '--expires-on',
    '2040-01-31',
    '--metadata',
    'crm=A=1',
    '--metadata',
    'x=',
    '--max-seats',
    '5',
    '--domain',
    'a.example.com',
    '--domain',
    'b.example.com',
  ]
  const first = await json<Licence>(...issue, ...fields)
  expect(first).toMatchObject({
    status: 'active',
    external_ref: reference,
    expires_on: '2040-01-31T00:00:00.000Z',
    metadata: { crm: 'A=1', x: '' },
    restrictions: { max_seats: 5, domains: ['a.example.com', 'b.example.com'] },
  })
  expect(await json(...issue, ...fields)).toEqual(first)
  const different = await runCommand(environment, ...issue, '--json')
  expect(different.code).toBe(1)
  expect(JSON.parse(different.stdout)).toMatchObject({ status: 409, code: 'idempotency_mismatch' })
  const byId = await json<Licence>('licences', 'issue', '--plan', first.plan_id, '--external-ref', reference)
  expect(byId.id).not.toBe(first.id)
  const unknown = await text('licences', 'issue', '--plan', 'none', '--external-ref', reference)
  expect(unknown).toMatchObject({
    code: 1,
    stderr: 'error: no plan has the code none: licensing plans list shows all\n',
  })
})

test('licences set changes the named fields and keeps the others', async () => {
  const { id } = await json<Licence>(
    'licences',
    'issue',
    '--plan',
    'pro',
    '--external-ref',
    'a',
    '--max-seats',
    '5',
    '--metadata',
    'a=1',
    '--metadata',
    'b=2',
  )
  const changed = await json(
    'licences',
    'set',
    id,
    '--external-ref',
    'b',
    '--max-activations',
    '2',
    '--metadata',
    'c=3',
    '--remove-metadata',
    'a',
  )
  expect(changed).toMatchObject({
    external_ref: 'b',
    restrictions: { max_seats: 5, max_activations: 2 },
    metadata: { b: '2', c: '3' },
  })
  expect(changed).not.toHaveProperty('metadata.a')
  const timed = await json(
    'licences',
    'set',
    id,
    '--expires-on',
    '2041-01-01T00:00:00Z',
    '--updates-until',
    '2040-01-01',
  )
  expect(timed).toMatchObject({
    expires_on: '2041-01-01T00:00:00.000Z',
    updates_until: '2040-01-01T00:00:00.000Z',
  })
  const cleared = await json(
    'licences',
    'set',
    id,
    '--expires-on',
    'none',
    '--updates-until',
    'none',
    '--no-restrictions',
  )
  expect(cleared).toMatchObject({
    expires_on: null,
    updates_until: null,
    restrictions: null,
    external_ref: 'b',
  })
})

test('licences list filters, and says if it stops at its limit; history and rotate-key take a licence', async () => {
  const ids: string[] = []
  for (let count = 0; count < 3; count++) {
    ids.push((await json<Licence>('licences', 'issue', '--plan', 'pro', '--external-ref', 'listed')).id)
  }
  const filters = ['licences', 'list', '--external-ref', 'listed', '--plan', 'pro', '--status', 'active']
  expect((await json<Licence[]>(...filters)).map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
  await json('licences', 'set', ids[1]!, '--metadata', 'crm=A-1', '--domain', 'listed.example.com')
  for (const filter of [
    ['--metadata', 'crm=A-1'],
    ['--domain', 'listed.example.com'],
  ]) {
    expect((await json<Licence[]>('licences', 'list', ...filter)).map(({ id }) => id)).toEqual([ids[1]])
  }
  const two = await text(...filters, '--limit', '2')
  expect(two.stdout.trimEnd().split('\n')).toHaveLength(2)
  expect(two.stderr).toBe('the first 2; --limit shows more\n')
  expect((await text(...filters, '--limit', '3')).stderr).toBe('')
  expect(await text('licences', 'list', '--status', 'suspended')).toEqual({
    code: 0,
    stdout: '',
    stderr: 'none found\n',
  })
  const before = (await licenceOf(ids[0]!)).key
  const { key } = await json<Licence>('licences', 'rotate-key', ids[0]!)
  expect(key).not.toBe(before)
  expect((await text('licences', 'history', ids[0]!)).stdout).toMatch(/^\S+ +key_rotated +active +key_\w+/)
})

test('on a terminal a list has column names', async () => {
  await using command = useTerminal(environment, 'plans', 'list')
  const { code, stdout } = await command.finished
  expect(code).toBe(0)
  expect(stdout).toMatch(/^ID +CODE +STATUS +ACTIVE_LICENCES +NAME\r\npln_/)
})

test('an override changes the value that products get, until it is removed', async () => {
  const { id } = await json<Licence>('licences', 'issue', '--plan', 'pro', '--external-ref', 'override')
  const valueOf = async (key: string) =>
    (await json<{ key: string }[]>('licences', 'entitlements', id)).find((row) => row.key === key)
  expect(await valueOf('seats')).toEqual({
    key: 'seats',
    value: '0',
    from: 'snapshot',
    ends_on: null,
    note: null,
  })
  const set = [
    'licences',
    'set-override',
    id,
    'seats',
    '25',
    '--ends-on',
    '2040-01-31',
    '--note',
    'ticket 812',
  ]
  expect(await json(...set)).toMatchObject({ key: 'seats', value: '25', note: 'ticket 812' })
  expect(await valueOf('seats')).toEqual({
    key: 'seats',
    value: '25',
    from: 'override',
    ends_on: '2040-01-31T00:00:00.000Z',
    note: 'ticket 812',
  })
  expect(await text('licences', 'remove-override', id, 'seats')).toEqual({
    code: 0,
    stdout: `${id} has no override of seats\n`,
    stderr: '',
  })
  expect(await valueOf('seats')).toMatchObject({ value: '0', from: 'snapshot' })
  expect((await text('licences', 'remove-override', id, 'seats')).code).toBe(1)
})

test('take-plan-values gives a licence the current values of its plan', async () => {
  await json('plans', 'create', 'growing')
  const { id } = await json<Licence>('licences', 'issue', '--plan', 'growing', '--external-ref', 'a')
  await json('plans', 'set', 'growing', '--value', 'seats=9')
  expect(await json('licences', 'take-plan-values', id)).toMatchObject({ id, status: 'active' })
  expect((await text('licences', 'entitlements', id)).stdout).toMatch(/^seats +9 +snapshot +- +-$/m)
})

test('metrics counts by day, for the last 30 days by default', async () => {
  await json('licences', 'issue', '--plan', 'pro', '--external-ref', 'counted')
  const { points } = await eventually(async () => {
    const found = await json<{ points: { at: string; values: { issued: number } }[] }>('metrics', 'licences')
    expect(found.points.at(-1)!.values.issued).toBeGreaterThan(0)
    return found
  })
  expect(points).toHaveLength(30)
  const { stdout } = await text('metrics', 'activations', '--from', '2026-01-01', '--to', '2026-01-02')
  expect(stdout).toBe('2026-01-01T00:00:00.000Z  0  0  0\n2026-01-02T00:00:00.000Z  0  0  0\n')
  const hours = ['--from', '2026-01-01', '--to', '2026-01-01', '--step', 'hour']
  expect((await text('metrics', 'deliveries', ...hours)).stdout.trimEnd().split('\n')).toHaveLength(24)
})

test('licences import is an alias of import', async () => {
  const { stderr, code } = await text('licences', 'import', '/none.csv')
  expect([code, stderr]).toEqual([1, 'error: /none.csv cannot be read (ENOENT)\n'])
})

test('plans are created, changed, archived, restored and given a price by their code', async () => {
  const code = `team-${randomUUID().slice(0, 8)}`
  const created = await json<Plan>(
    'plans',
    'create',
    code,
    '--name',
    'Team',
    '--value',
    'seats=10',
    '--trial-days',
    '14',
    '--metadata',
    'sku=A',
  )
  expect(created).toMatchObject({
    code,
    name: 'Team',
    trial_days: 14,
    metadata: { sku: 'A' },
    entitlements: [{ value: '10' }],
  })
  expect(await json('plans', 'show', code)).toEqual(created)
  expect(await json('plans', 'show', created.id)).toEqual(created)
  const changed = await json<Plan>(
    'plans',
    'set',
    code,
    '--value',
    'export_pdf=true',
    '--trial-days',
    '0',
    '--metadata',
    'x=1',
    '--remove-metadata',
    'sku',
  )
  expect(changed).toMatchObject({ name: 'Team', trial_days: null, metadata: { x: '1' } })
  expect(changed.entitlements.map(({ value }) => value).toSorted()).toEqual(['10', 'true'])
  const less = await json<Plan>('plans', 'set', code, '--default', 'seats', '--name', 'T')
  expect(less.entitlements.map(({ value }) => value)).toEqual(['true'])
  const { id } = await json<Licence>('licences', 'issue', '--plan', code, '--external-ref', 'a')
  expect((await text('plans', 'archive', code)).stdout).toBe(`${created.id} retired, suspended licences: 1\n`)
  expect((await licenceOf(id)).status).toBe('suspended')
  expect((await text('plans', 'restore', code)).stdout).toBe(`${created.id} active\n`)
  const priceId = `price_${randomUUID()}`
  const price = await json(
    'plans',
    'set-price',
    code,
    '--price-id',
    priceId,
    '--amount',
    '4900',
    '--currency',
    'usd',
    '--updates-months',
    '12',
  )
  expect(price).toMatchObject({
    price_id: priceId,
    amount: 4900,
    currency: 'usd',
    mode: 'payment',
    updates_months: 12,
  })
  expect(await json('plans', 'price', code)).toEqual(price)
  expect((await text('plans', 'remove-price', code)).code).toBe(0)
  expect((await text('plans', 'price', code)).code).toBe(1)
  expect((await text('plans', 'list', '--status', 'active')).stdout).toContain(`${created.id}  ${code}`)
})

test('a checkout is opened for a plan with a price, listed, shown and replayed', async () => {
  await json('plans', 'create', 'sold')
  await json(
    'plans',
    'set-price',
    'sold',
    '--price-id',
    `price_${randomUUID()}`,
    '--amount',
    '4900',
    '--currency',
    'usd',
  )
  const urls = [
    '--success-url',
    'https://shop.example.com/thanks',
    '--cancel-url',
    'https://shop.example.com/cart',
  ]
  const session = await json<{ id: string }>(
    'checkout',
    'create',
    '--plan',
    'sold',
    '--external-ref',
    'buyer',
    ...urls,
  )
  expect(session).toMatchObject({ url: expect.stringMatching(/^http/) })
  expect(await json('checkout', 'show', session.id)).toMatchObject({
    id: session.id,
    status: 'open',
    external_ref: 'buyer',
  })
  expect(await json('checkout', 'list', '--status', 'open', '--external-ref', 'buyer')).toMatchObject([
    { id: session.id },
  ])
  const replayed = await runCommand(environment, 'checkout', 'replay', session.id, '--json')
  expect(JSON.parse(replayed.stdout)).toMatchObject({ code: 'conflict' })
})

test('a payment, its refund and its fees are listed with amounts in main units', async () => {
  const shop = await market.givenShop()
  const { id } = await shop.sells()
  const { licence, session } = await shop.buy(id, 'payer')
  await market.atProcessor('refund', { charge: session.remote })
  await shop.becomes(licence.id, 'revoked')
  const inShop = (...args: string[]) => runCommand(settingsOf(stack, shop.appId), 'payments', ...args)
  const paid = await inShop('list', '--licence', licence.id)
  expect(paid.stdout).toMatch(/^pay_\w+ +49\.00 EUR +\d\.\d\d EUR +payer +lic_\w+ +\S+ +20\S+Z\n$/)
  const rows = JSON.parse((await inShop('list', '--json')).stdout) as { charge_ref: string }[]
  expect(rows).toMatchObject([{ amount: 4900, currency: 'eur', licence_id: licence.id }])
  expect((await inShop('list', '--charge-ref', rows[0]!.charge_ref)).stdout).toBe(paid.stdout)
  expect((await inShop('list', '--until', '2026-01-01')).stderr).toBe('none found\n')
  expect((await inShop('refunds')).stdout).toMatch(/^rfd_\w+ +full_refund +succeeded +49\.00 EUR +lic_/)
  expect((await inShop('fees')).stdout).toMatch(/^fee_\w+ +charge +\d\.\d\d EUR +20\d\d-\d\d +/m)
  expect((await inShop('spend-cap')).stdout).toMatch(/^period: 20\d\d-\d\d\ncap_minor: null\n/)
})

test('an endpoint is registered with its secret shown once, tested, rotated and deleted; deliveries are shown and replayed', async () => {
  const made = await json<{ id: string; secret: string }>(
    'endpoints',
    'create',
    market.receiver.url(),
    '--events',
    'licence.suspended,webhook.test',
  )
  expect(made.secret).toMatch(/^whsec_/)
  expect(made).toMatchObject({ subscribed_events: 'licence.suspended,webhook.test', status: 'enabled' })
  for (const args of [['list'], ['show', made.id]]) {
    const { stdout, code } = await text('endpoints', ...args)
    expect(code).toBe(0)
    expect(stdout).toContain(made.id)
    expect(stdout).not.toContain('whsec_')
  }
  const { event_id: event } = await json<{ event_id: string }>('endpoints', 'test', made.id)
  const filters = [
    'deliveries',
    'list',
    '--event',
    event,
    '--status',
    'delivered',
    '--type',
    'webhook.test',
    '--endpoint',
    made.id,
  ]
  const [delivery] = await eventually(async () => {
    const found = await json<{ id: string }[]>(...filters)
    expect(found).toHaveLength(1)
    return found
  })
  expect(await json('deliveries', 'show', delivery!.id)).toMatchObject({
    id: delivery!.id,
    attempts: [{ response_code: 200 }],
  })
  const before = market.receiver.requests.length
  const replayed = await json<{ id: string }>('deliveries', 'replay', delivery!.id)
  expect(replayed.id).toMatch(/^\w+$/)
  await eventually(() => expect(market.receiver.requests.length).toBeGreaterThan(before))
  const rotated = await json<{ secret: string }>('endpoints', 'rotate-secret', made.id)
  expect(rotated.secret).toMatch(/^whsec_/)
  expect(rotated.secret).not.toBe(made.secret)
  expect(
    (await text('endpoints', 'recover', made.id, '--since', '2026-01-01', '--events', 'licence.suspended'))
      .code,
  ).toBe(0)
  expect((await text('endpoints', 'delete', made.id)).stdout).toBe(`${made.id} disabled\n`)
  expect(await json('endpoints', 'show', made.id)).toMatchObject({ status: 'disabled' })
})

test('events lists the newest events, or the events after a sequence, in order', async () => {
  const { id } = await json<Licence>('licences', 'issue', '--plan', 'pro', '--external-ref', 'events')
  for (const verb of ['suspend', 'reactivate', 'retire'])
    expect((await text('licences', verb, id)).code).toBe(0)
  interface Event {
    sequence: number
    type: string
    data: { object: { licence_id?: string } }
  }
  const mine = await eventually(async () => {
    const found = await json<Event[]>('events', 'list')
    expect(found.at(-1)).toMatchObject({ type: 'licence.retired', data: { object: { licence_id: id } } })
    return found.slice(-3)
  })
  expect(mine.map(({ type }) => type)).toEqual([
    'licence.suspended',
    'licence.reactivated',
    'licence.retired',
  ])
  const { sequence } = mine[0]!
  expect(await json('events', 'list', '--after', String(sequence))).toEqual(mine.slice(1))
  expect(await json('events', 'list', '--limit', '1')).toEqual(mine.slice(2))
  const { stdout, stderr } = await text('events', 'list', '--after', String(sequence), '--limit', '1')
  expect(stdout).toMatch(new RegExp(`^${sequence + 1} +evt_\\w+ +licence.reactivated .*"licence_id":"${id}"`))
  expect(stderr).toBe('the first 1; --limit shows more\n')
})

test('an API key is shown only when it is created, and is refused after it was revoked', async () => {
  const made = await json<{ id: string; key: string }>(
    'keys',
    'create',
    'ci',
    '--scope',
    'read',
    '--scope',
    'issue',
    '--bound-to',
    vendor.appId,
  )
  expect(made).toMatchObject({
    scopes: ['read', 'issue'],
    app_id: vendor.appId,
    key: expect.stringMatching(/^lsk_/),
  })
  const list = await text('keys', 'list')
  expect(list.stdout).toContain(made.id)
  expect(list.stdout + list.stderr).not.toContain('lsk_')
  const who = () =>
    runCommand({ LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: made.key }, 'whoami', '--json')
  const first = await who()
  expect(JSON.parse(first.stdout)).toMatchObject({
    url: `${stack.gatewayUrl}/`,
    profile: null,
    id: made.id,
    name: 'ci',
    account_id: stack.accountId,
  })
  expect(first.stdout + first.stderr).not.toContain(made.key)
  expect((await text('keys', 'revoke', made.id)).stdout).toBe(`${made.id} revoked\n`)
  await eventually(async () => expect((await who()).code).toBe(1))
})

test('on a terminal revoke and retire ask for confirmation, and continue only after yes', async () => {
  for (const [verb, answer, code, status] of [
    ['revoke', 'n\r', 1, 'active'],
    ['revoke', '\r', 1, 'active'],
    ['revoke', '\u0004', 1, 'active'],
    ['retire', '\u0003', 1, 'active'],
    ['revoke', 'y\r', 0, 'revoked'],
    ['retire', 'yes\r', 0, 'retired'],
  ] as const) {
    const { id } = await vendor.issue((await json<Plan>('plans', 'show', 'pro')).id)
    await using command = useTerminal(environment, 'licences', verb, id)
    await eventually(() => expect(command.stdout()).toContain(`${id} permanently? [y/N] `))
    expect((await licenceOf(id)).status).toBe('active')
    command.type(answer)
    const finished = await command.finished
    expect([JSON.stringify(answer), finished.code]).toEqual([JSON.stringify(answer), code])
    expect((await licenceOf(id)).status).toBe(status)
    if (code === 1) expect(finished.stdout).toContain('nothing was changed')
  }
})

test('--yes skips the question on a terminal', async () => {
  const { id } = await json<Licence>('licences', 'issue', '--plan', 'pro', '--external-ref', 'yes')
  await using command = useTerminal(environment, 'licences', 'revoke', id, '--yes')
  const { code, stdout } = await command.finished
  expect(code).toBe(0)
  expect(stdout).not.toContain('[y/N]')
  expect((await licenceOf(id)).status).toBe('revoked')
})
