import { randomUUID } from 'node:crypto'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { commandLine, settingsOf, useTerminal } from './command-line.ts'
import type { Envelope } from './delivery.ts'
import { givenMarket, givenShop } from './shop.ts'
import type { Payment } from './shop.ts'
import { givenVendor } from './vendor.ts'
import type { Licence, Plan } from './vendor.ts'

const market = await givenMarket()
const { stack } = market
const vendor = await givenVendor(stack)
await vendor.define('seats', 'limit')
await vendor.define('export_pdf', 'feature')
const pro = await vendor.plan({ code: 'pro' })
const environment = settingsOf(stack, vendor.appId)
const { json, text } = commandLine(environment)

const issue = (more = '') => json<Licence>(`licences issue --plan pro --external-ref ${randomUUID()}${more}`)
const statusOf = async (id: string) => (await vendor.detail(id)).status

test('licences issue takes the code or id of the plan, and a repeat with the same key issues no second licence', async () => {
  const reference = randomUUID()
  const issued = `licences issue --plan pro --external-ref ${reference} --idempotency-key ${reference}`
  const fields =
    '--expires-on 2040-01-31 --metadata crm=A=1 --metadata x= --max-seats 5 --domain a.example.com --domain b.example.com'
  const first = await json<Licence>(`${issued} ${fields}`)
  expect(first).toMatchObject({
    status: 'active',
    external_ref: reference,
    expires_on: '2040-01-31T23:59:59.999Z',
    metadata: { crm: 'A=1', x: '' },
    restrictions: { max_seats: 5, domains: ['a.example.com', 'b.example.com'] },
  })
  expect(await json(`${issued} ${fields}`)).toEqual(first)
  expect(await json(issued, 1)).toMatchObject({ status: 409, code: 'idempotency_mismatch' })
  const byId = await json<Licence>(`licences issue --plan ${pro.id} --external-ref ${reference}`)
  expect(byId.id).not.toBe(first.id)
  expect(await text('licences issue --plan none --external-ref a')).toMatchObject({
    code: 1,
    stderr: 'error: no plan has the code none: licensing plans list shows all\n',
  })
})

test('licences set changes the named fields and keeps the others', async () => {
  const { id } = await issue(' --max-seats 5 --metadata a=1 --metadata b=2')
  const set = `licences set ${id}`
  expect(
    await json(`${set} --external-ref b --max-activations 2 --metadata c=3 --remove-metadata a`),
  ).toMatchObject({ external_ref: 'b', restrictions: { max_seats: 5, max_activations: 2 } })
  expect((await vendor.detail(id)).metadata).toEqual({ b: '2', c: '3' })
  const ends = '--expires-on 2041-01-01T00:00:00Z --updates-until 2040-01-01'
  expect(await json(`${set} ${ends}`)).toMatchObject({
    expires_on: '2041-01-01T00:00:00.000Z',
    updates_until: '2040-01-01T23:59:59.999Z',
  })
  const cleared = { expires_on: null, updates_until: null, restrictions: null, external_ref: 'b' }
  expect(await json(`${set} --expires-on none --updates-until none --no-restrictions`)).toMatchObject(cleared)
})

test('licences list filters, and says if it stops at its limit; history and rotate-key take a licence', async () => {
  const ids = [(await issue()).id, (await issue()).id, (await issue()).id]
  for (const id of ids) await json(`licences set ${id} --external-ref listed`)
  const filters = 'licences list --external-ref listed --plan pro --status active'
  const found = async (words: string) => (await json<Licence[]>(words)).map(({ id }) => id)
  expect((await found(filters)).toSorted()).toEqual(ids.toSorted())
  await json(`licences set ${ids[1]} --metadata crm=A-1 --domain listed.example.com`)
  for (const filter of ['--metadata crm=A-1', '--domain listed.example.com']) {
    expect(await found(`licences list ${filter}`)).toEqual([ids[1]])
  }
  const two = await text(`${filters} --limit 2`)
  expect(two.stdout.trimEnd().split('\n')).toHaveLength(2)
  expect(two.stderr).toBe('the first 2; --limit shows more\n')
  expect((await text(`${filters} --limit 3`)).stderr).toBe('')
  const none = { code: 0, stdout: '', stderr: 'none found\n' }
  expect(await text('licences list --status suspended')).toEqual(none)
  const { key } = await vendor.detail(ids[0]!)
  expect((await json<Licence>(`licences rotate-key ${ids[0]}`)).key).not.toBe(key)
  expect((await text(`licences history ${ids[0]}`)).stdout).toMatch(/^\S+ +key_rotated +active +key_\w+/)
})

test('licences customer-link creates a link to the customer’s page, for as long as asked', async () => {
  const { id } = await issue()
  const before = Date.now()
  const link = await json<{ url: string; expires_at: string }>(
    `licences customer-link ${id} --minutes 5 --return-url https://shop.example.com/account`,
  )
  expect(link.url).toMatch(new RegExp(`^${stack.gatewayUrl}/customer#cst_`))
  expect(Math.abs(Date.parse(link.expires_at) - before - 5 * 60_000)).toBeLessThan(30_000)
  const key = link.url.split('#')[1]!
  const seen = await stack.api.get('/v1/customer/licence', { key })
  expect(seen).toMatchObject({ status: 200, body: { return_url: 'https://shop.example.com/account' } })
  expect((await text(`licences customer-link ${id}`)).stdout).toMatch(/^url: http\S+\/customer#cst_\S+\n/)
  expect(await text(`licences customer-link ${id} --minutes 4`)).toMatchObject({ code: 2, stdout: '' })
})

test('on a terminal a list has column names', async () => {
  await using command = useTerminal(environment, 'plans', 'list')
  const { code, stdout } = await command.finished
  expect(code).toBe(0)
  expect(stdout).toMatch(/^ID +CODE +STATUS +ACTIVE_LICENCES +NAME\r\npln_/)
})

test('an override changes the value that products get, until it is removed', async () => {
  const { id } = await issue()
  const seats = async () =>
    (await json<{ key: string }[]>(`licences entitlements ${id}`)).find(({ key }) => key === 'seats')
  const before = { key: 'seats', value: '0', from: 'snapshot', ends_on: null, note: null }
  expect(await seats()).toEqual(before)
  await text(`licences set-override ${id} seats 25 --ends-on 2040-01-31 --note`, 'ticket 812')
  const override = { ends_on: '2040-01-31T23:59:59.999Z', note: 'ticket 812' }
  expect(await seats()).toEqual({ key: 'seats', value: '25', from: 'override', ...override })
  const removed = { code: 0, stdout: `${id} has no override of seats\n`, stderr: '' }
  expect(await text(`licences remove-override ${id} seats`)).toEqual(removed)
  expect(await seats()).toEqual(before)
  expect((await text(`licences remove-override ${id} seats`)).code).toBe(1)
})

test('take-plan-values gives a licence the current values of its plan', async () => {
  await json('plans create growing')
  const { id } = await json<Licence>('licences issue --plan growing --external-ref a')
  await json('plans set growing --value seats=9')
  expect(await json(`licences take-plan-values ${id}`)).toMatchObject({ id, status: 'active' })
  expect((await text(`licences entitlements ${id}`)).stdout).toMatch(/^seats +9 +snapshot +- +-$/m)
})

test('metrics counts by day, for the last 30 days by default', async () => {
  await issue()
  const { points } = await eventually(async () => {
    const found = await json<{ points: { at: string; values: { issued: number } }[] }>('metrics licences')
    expect(found.points.at(-1)!.values.issued).toBeGreaterThan(0)
    return found
  })
  expect(points).toHaveLength(30)
  const { stdout } = await text('metrics activations --from 2026-01-01 --to 2026-01-02')
  expect(stdout).toBe('2026-01-01T00:00:00.000Z  0  0  0\n2026-01-02T00:00:00.000Z  0  0  0\n')
  const hours = await text('metrics deliveries --from 2026-01-01 --to 2026-01-01 --step hour')
  expect(hours.stdout.trimEnd().split('\n')).toHaveLength(24)
})

test('plans are created, changed, archived, restored and given a price by their code', async () => {
  const made = await json<Plan>(
    'plans create team --name Team --value seats=10 --trial-days 14 --metadata sku=A',
  )
  const fields = { code: 'team', name: 'Team', trial_days: 14, metadata: { sku: 'A' } }
  expect(made).toMatchObject({ ...fields, entitlements: [{ value: '10' }] })
  for (const name of ['team', made.id]) expect(await json(`plans show ${name}`)).toEqual(made)
  const changed = await json<Plan>(
    'plans set team --value export_pdf=true --trial-days 0 --metadata x=1 --remove-metadata sku',
  )
  expect(changed).toMatchObject({ name: 'Team', trial_days: null, metadata: { x: '1' } })
  expect(changed.entitlements.map(({ value }) => value).toSorted()).toEqual(['10', 'true'])
  const less = await json<Plan>('plans set team --default seats --name T')
  expect(less.entitlements.map(({ value }) => value)).toEqual(['true'])
  const { id } = await json<Licence>('licences issue --plan team --external-ref a')
  expect((await text('plans archive team')).stdout).toBe(`${made.id} retired, suspended licences: 1\n`)
  expect(await statusOf(id)).toBe('suspended')
  expect((await text('plans restore team')).stdout).toBe(`${made.id} active\n`)
  const priceId = `price_${randomUUID()}`
  const price = await json(
    `plans set-price team --price-id ${priceId} --amount 4900 --currency usd --updates-months 12`,
  )
  const paid = { price_id: priceId, amount: 4900, currency: 'usd', mode: 'payment', updates_months: 12 }
  expect(price).toMatchObject(paid)
  expect(await json('plans price team')).toEqual(price)
  expect((await text('plans remove-price team')).code).toBe(0)
  expect((await text('plans price team')).code).toBe(1)
  expect((await text('plans list --status active')).stdout).toContain(`${made.id}  team`)
})

test('a checkout is opened for a plan with a price, listed, shown and replayed', async () => {
  await json('plans create sold')
  await json(`plans set-price sold --price-id price_${randomUUID()} --amount 4900 --currency usd`)
  const urls = '--success-url https://shop.example.com/thanks --cancel-url https://shop.example.com/cart'
  const { id, url } = await json<{ id: string; url: string }>(
    `checkout create --plan sold --external-ref buyer ${urls}`,
  )
  expect(url).toMatch(/^http/)
  expect(await json(`checkout show ${id}`)).toMatchObject({ id, status: 'open', external_ref: 'buyer' })
  expect(await json('checkout list --status open --external-ref buyer')).toMatchObject([{ id }])
  expect(await json(`checkout replay ${id}`, 1)).toMatchObject({ code: 'conflict' })
})

test('a payment, its refund and its fees are listed with amounts in main units', async () => {
  const shop = await givenShop(market)
  const { licence, session } = await shop.buy((await shop.sells()).id, 'payer')
  await market.atProcessor('refund', { charge: session.remote })
  await shop.becomes(licence.id, 'revoked')
  const inShop = commandLine(settingsOf(stack, shop.appId))
  const paid = await inShop.text(`payments list --licence ${licence.id}`)
  expect(paid.stdout).toMatch(/^pay_\w+ +49\.00 EUR +\d\.\d\d EUR +payer +lic_\w+ +\S+ +20\S+Z\n$/)
  const rows = await inShop.json<Payment[]>('payments list')
  expect(rows).toMatchObject([{ amount: 4900, currency: 'eur', licence_id: licence.id }])
  const ofCharge = await inShop.text(`payments list --charge-ref ${rows[0]!.charge_ref}`)
  expect(ofCharge.stdout).toBe(paid.stdout)
  expect((await inShop.text('payments list --until 2026-01-01')).stderr).toBe('none found\n')
  for (const [command, shown] of [
    ['refunds', /^rfd_\w+ +full_refund +succeeded +49\.00 EUR +lic_/],
    ['fees', /^fee_\w+ +charge +\d\.\d\d EUR +20\d\d-\d\d +/m],
    ['spend-cap', /^period: 20\d\d-\d\d\ncap_minor: null\n/],
  ] as const) {
    expect((await inShop.text(`payments ${command}`)).stdout).toMatch(shown)
  }
})

test('an endpoint is registered with its secret shown once, tested, rotated and deleted; deliveries are shown and replayed', async () => {
  const { receiver } = market
  const { id, ...made } = await json<{ id: string; secret: string }>(
    `endpoints create ${receiver.url()} --events licence.suspended,webhook.test`,
  )
  expect(made).toMatchObject({ subscribed_events: 'licence.suspended,webhook.test', status: 'enabled' })
  expect(made.secret).toMatch(/^whsec_/)
  for (const words of ['endpoints list', `endpoints show ${id}`]) {
    const { stdout, code } = await text(words)
    expect(code).toBe(0)
    expect(stdout).toContain(id)
    expect(stdout).not.toContain('whsec_')
  }
  const { event_id: event } = await json<{ event_id: string }>(`endpoints test ${id}`)
  const [delivery] = await eventually(async () => {
    const found = await json<{ id: string }[]>(
      `deliveries list --event ${event} --status delivered --type webhook.test --endpoint ${id}`,
    )
    expect(found).toHaveLength(1)
    return found
  })
  const shown = { id: delivery!.id, attempts: [{ response_code: 200 }] }
  expect(await json(`deliveries show ${delivery!.id}`)).toMatchObject(shown)
  const before = receiver.requests.length
  await json(`deliveries replay ${delivery!.id}`)
  await eventually(() => expect(receiver.requests.length).toBeGreaterThan(before))
  const rotated = await json<{ secret: string }>(`endpoints rotate-secret ${id}`)
  expect(rotated.secret).toMatch(/^whsec_/)
  expect(rotated.secret).not.toBe(made.secret)
  const both = await json<{ secret: string }>(`endpoints rotate-secret ${id} --overlap-hours 1`)
  expect(both.secret).not.toBe(rotated.secret)
  const options = `--url ${receiver.url('/moved')} --events * --description moved --header X-Key=a=b --header X-Other=1`
  const edited = await json(`endpoints edit ${id} ${options} --plans pro --signature standard`)
  const headers = { 'X-Key': null, 'X-Other': null }
  const shownAs = {
    url: receiver.url('/moved'),
    subscribed_events: '*',
    description: 'moved',
    headers,
    plans: [pro.id],
  }
  expect(edited).toMatchObject({
    ...shownAs,
    signature: 'standard',
    secret: expect.stringMatching(/^whsec_/) as string,
  })
  const cleared = await json(`endpoints edit ${id} --header none --plans none --description none`)
  expect(cleared).toMatchObject({ headers: null, plans: null, description: null, signature: 'standard' })
  expect((await text(`endpoints edit ${id}`)).code).toBe(2)
  expect((await text(`endpoints edit ${id} --header X-Key`)).code).toBe(2)
  expect(await json(`endpoints pause ${id}`)).toMatchObject({ paused: true })
  expect((await text(`endpoints test ${id}`)).code).toBe(1)
  expect(await json(`endpoints resume ${id}`)).toMatchObject({ paused: false })
  expect((await text(`endpoints show ${id}`)).stdout).toContain('disables_at')
  await json(`endpoints recover ${id} --since 2026-01-01 --events licence.suspended`)
  expect((await text(`endpoints delete ${id}`)).stdout).toBe(`${id} disabled\n`)
  expect(await json(`endpoints show ${id}`)).toMatchObject({ status: 'disabled' })
})

test('events lists the newest events, or the events after a sequence, in order', async () => {
  const { id } = await issue()
  for (const verb of ['suspend', 'reactivate', 'retire']) await json(`licences ${verb} ${id}`)
  const mine = await eventually(async () => {
    const found = (await json<Envelope[]>('events list')).slice(-3)
    expect(found.map(({ type }) => type)).toEqual([
      'licence.suspended',
      'licence.reactivated',
      'licence.retired',
    ])
    expect(found[2]!.data.object).toMatchObject({ licence_id: id })
    return found
  })
  const { sequence } = mine[0]!
  expect(await json(`events list --after ${sequence}`)).toEqual(mine.slice(1))
  expect(await json('events list --limit 1')).toEqual(mine.slice(2))
  const { stdout, stderr } = await text(`events list --after ${sequence} --limit 1`)
  expect(stdout).toMatch(new RegExp(`^${sequence + 1} +evt_\\w+ +licence.reactivated .*"licence_id":"${id}"`))
  expect(stderr).toBe('the first 1; --limit shows more\n')
})

test('an API key is shown only when it is created, and is refused after it was revoked', async () => {
  const made = await json<{ id: string; key: string }>(
    `keys create ci --scope read --scope issue --bound-to ${vendor.appId}`,
  )
  expect(made).toMatchObject({ scopes: ['read', 'issue'], app_id: vendor.appId })
  expect(made.key).toMatch(/^lsk_/)
  const list = await text('keys list')
  expect(list.stdout).toContain(made.id)
  expect(list.stdout + list.stderr).not.toContain('lsk_')
  const another = commandLine({ LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: made.key })
  const { stdout, stderr } = await another.text('whoami --json')
  const own = { url: `${stack.gatewayUrl}/`, profile: null, id: made.id, name: 'ci' }
  expect(JSON.parse(stdout)).toMatchObject({ ...own, account_id: stack.accountId })
  expect(stdout + stderr).not.toContain(made.key)
  expect((await text(`keys revoke ${made.id}`)).stdout).toBe(`${made.id} revoked\n`)
  await eventually(async () => expect((await another.text('whoami')).code).toBe(1))
})

test.each([
  ['revoke', 'n\r', 1, 'active'],
  ['revoke', '\r', 1, 'active'],
  ['revoke', '\u0004', 1, 'active'],
  ['retire', '\u0003', 1, 'active'],
  ['retire', 'yes\r', 0, 'retired'],
] as const)(
  'on a terminal %s asks for confirmation: after %j the exit code is %i',
  async (verb, answer, code, status) => {
    const { id } = await issue()
    await using command = useTerminal(environment, 'licences', verb, id)
    await eventually(() => expect(command.stdout()).toContain(`${id} permanently? [y/N] `))
    expect(await statusOf(id)).toBe('active')
    command.type(answer)
    const finished = await command.finished
    expect([finished.code, await statusOf(id)]).toEqual([code, status])
    if (code === 1) expect(finished.stdout).toContain('nothing was changed')
  },
)

// docs/guides/cli.md, "Output".
test.each(['revoke', 'retire', 'rotate-key', 'take-plan-values'])(
  'on a terminal licences %s changes nothing without an answer, and --yes skips the question, as a pipeline with a terminal needs',
  async (name) => {
    await json(`plans create ${name}`)
    const { id } = await json<Licence>(`licences issue --plan ${name} --external-ref a`)
    await json(`plans set ${name} --value seats=9`)
    const before = await vendor.detail(id)
    await using asked = useTerminal(environment, 'licences', name, id)
    await eventually(() => expect(asked.stdout()).toContain('? [y/N] '))
    asked.type('\u0004')
    expect(await asked.finished).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('nothing was changed'),
    })
    expect(await vendor.detail(id)).toEqual(before)
    await using command = useTerminal(environment, 'licences', name, id, '--yes')
    const { code, stdout } = await command.finished
    expect(code).toBe(0)
    expect(stdout).not.toContain('[y/N]')
    expect(await vendor.detail(id)).not.toEqual(before)
  },
)
