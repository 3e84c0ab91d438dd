import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenCustomers } from './section-15.ts'
import {
  dayMs,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectRefused,
  expectStatus,
  givenVendor,
  inMs,
  isoTime,
  unknownId,
} from './vendor.ts'

const { studio, planId, api, detail, history, issue, verb, linked, setPage, givenPage, activated } =
  await givenCustomers()
const { gatewayUrl } = studio.market.stack

test('the customer sees exactly what is listed of the licence, and nothing else of the vendor', async () => {
  const own = await givenPage({
    accent_color: '#0b6e4f',
    support_url: 'mailto:help@example.com',
    offline_days: 30,
  })
  const plan = await own.plan({ name: 'Team' })
  const licence = await own.issue(plan.id, {
    external_ref: 'secret-reference',
    metadata: { note: 'secret-metadata' },
    expires_on: inMs(90 * dayMs),
    updates_until: inMs(30 * dayMs),
    restrictions: { max_activations: 200, max_concurrent: 4 },
  })
  const { activation_id } = await activated(licence, {
    fingerprint: 'secret-fingerprint',
    host: 'laptop.example.com',
  })
  const visitor = await linked(licence, { return_url: 'https://shop.example.com/' })
  const seen = await visitor.licence()
  const ofVendor = await own.detail(licence.id)
  expect(seen).toEqual({
    app: { name: 'Studio', support_url: 'mailto:help@example.com', accent_color: '#0b6e4f' },
    key: licence.key,
    plan_name: 'Team',
    status: 'active',
    status_reason: null,
    expires_on: ofVendor.expires_on,
    updates_until: ofVendor.updates_until,
    trial: false,
    entitlements: [
      { key: 'export_pdf', display_name: 'export_pdf', kind: 'feature', value: 'false' },
      { key: 'projects', display_name: 'projects', kind: 'limit', value: '3' },
    ],
    activations: [
      {
        id: activation_id,
        host: 'laptop.example.com',
        product_version: '4.2.0',
        created_at: expect.stringMatching(isoTime) as string,
        last_seen_at: expect.stringMatching(isoTime) as string,
        lease_ends_at: ofVendor.activations[0]!.lease_ends_at,
      },
    ],
    activations_total: 1,
    max_activations: 200,
    max_concurrent: 4,
    leases_in_use: 1,
    frees_left: 3,
    offline_days: 30,
    subscription: null,
    return_url: 'https://shop.example.com/',
    expires_at: expect.stringMatching(isoTime) as string,
  })
  const hidden = ['secret-', licence.id, plan.id, plan.code, own.appId, studio.market.stack.accountId]
  for (const text of hidden) expect(JSON.stringify(seen)).not.toContain(text)
  const ordinary = await (await linked(await issue(planId))).licence()
  expect(ordinary).toMatchObject({ max_activations: null, max_concurrent: null, leases_in_use: 0 })
})

test('entitlements are the effective ones by display name, or by key if the definition was deleted', async () => {
  const own = await givenVendor(studio.market.stack)
  const define = async (body: object) => {
    const answer = await api.post<{ id: string }>(`${own.app}/entitlement-defs`, { body })
    expectStatus(answer, 201)
    return answer.body
  }
  await define({ key: 'export_pdf', kind: 'feature', display_name: 'Export as PDF' })
  await define({ key: 'projects', kind: 'limit', default: '3', display_name: 'Projects' })
  const gone = await define({ key: 'gone', kind: 'feature', display_name: 'Gone' })
  const plan = await own.plan({
    entitlements: [
      { key: 'export_pdf', value: 'true' },
      { key: 'projects', value: '10' },
      { key: 'gone', value: 'true' },
    ],
  })
  const licence = await own.issue(plan.id)
  const overridden = await api.put(`/v1/licences/${licence.id}/overrides/projects`, { body: { value: '25' } })
  expectStatus(overridden, 200)
  const visitor = await linked(licence)
  const shown = async () =>
    (await visitor.licence())['entitlements'] as { key: string; display_name: string; value: string }[]
  const { effective } = await own.detail(licence.id)
  const expected = [
    { key: 'export_pdf', display_name: 'Export as PDF', kind: 'feature', value: 'true' },
    { key: 'projects', display_name: 'Projects', kind: 'limit', value: '25' },
    { key: 'gone', display_name: 'Gone', kind: 'feature', value: 'true' },
  ]
  const sorted = (rows: { key: string }[]) => rows.toSorted((a, b) => a.key.localeCompare(b.key))
  expect(sorted(await shown())).toEqual(sorted(expected))
  expect((await shown()).map(({ key }) => key)).toEqual(effective.map(({ key }) => key))
  await api.delete(`${own.app}/entitlement-defs/${gone.id}`)
  const left = (await own.detail(licence.id)).effective.map(({ key }) => key)
  await eventually(async () => {
    const rows = await shown()
    expect(rows.map(({ key }) => key)).toEqual(left)
    if (left.includes('gone')) expect(rows.find(({ key }) => key === 'gone')!.display_name).toBe('gone')
  })
})

test('the newest 100 machines are listed, and all are counted', async () => {
  const licence = await issue(planId)
  const machines: string[] = []
  for (let at = 0; at < 104; at += 8) {
    const granted = await Promise.all(Array.from({ length: 8 }, () => activated(licence)))
    machines.push(...granted.map(({ activation_id: id }) => id))
  }
  const { activations, activations_total } = await (await linked(licence)).licence()
  expect(activations_total).toBe(104)
  expect(activations).toHaveLength(100)
  const listed = new Set(activations.map(({ id }) => id))
  for (const id of machines.slice(8)) expect(listed).toContain(id)
})

test('a customer removes machines, as many a day as the vendor allows, however many calls arrive at once', async () => {
  const licence = await issue(planId)
  const machines = await Promise.all(Array.from({ length: 20 }, () => activated(licence)))
  const [visitor, other] = [await linked(licence), await linked(licence)]
  expect(await visitor.licence()).toMatchObject({ frees_left: 3 })
  const answers = await Promise.all(
    machines.map(({ activation_id: id }, at) => (at % 2 === 0 ? visitor : other).remove(id)),
  )
  const removed = machines.filter((_, at) => answers[at]!.status === 204)
  expect(removed).toHaveLength(3)
  for (const answer of answers) if (answer.status !== 204) expectProblem(answer, 409, 'quota_exceeded')
  expect(await visitor.licence()).toMatchObject({ frees_left: 0, activations_total: 17 })
  expect((await detail(licence.id)).activations_total).toBe(17)
  const entries = (await history(licence.id)).filter(({ type }) => type === 'activation_freed')
  expect(entries.map(({ actor, cause }) => ({ actor, cause }))).toEqual(
    expect.arrayContaining(removed.map(({ activation_id }) => ({ actor: 'customer', cause: activation_id }))),
  )
  expect(entries).toHaveLength(3)
  expectNotFound(await visitor.remove(removed[0]!.activation_id))
  expectStatus(await studio.refresh(machines.find((each) => !removed.includes(each))!), 200)
  expect((await studio.refresh(removed[0]!)).status).toBeGreaterThanOrEqual(401)
})

test('an unknown, freed or foreign machine is 404 and counts nothing; suspended and revoked licences can be freed', async () => {
  const [licence, foreign] = [await issue(planId), await issue(planId)]
  const [machine, last] = [await activated(licence), await activated(licence)]
  const { activation_id: of } = await activated(foreign)
  const visitor = await linked(licence)
  for (const id of [unknownId('act'), of, 'x']) expectNotFound(await visitor.remove(id))
  expect(await visitor.licence()).toMatchObject({ frees_left: 3 })
  await verb('suspend', licence.id)
  expectStatus(await visitor.remove(machine.activation_id), 204)
  expectNotFound(await visitor.remove(machine.activation_id))
  await verb('revoke', licence.id)
  expectStatus(await visitor.remove(last.activation_id), 204)
  expect(await visitor.licence()).toMatchObject({ frees_left: 1, activations_total: 0, status: 'revoked' })
  expect((await detail(foreign.id)).activations_total).toBe(1)
})

test('a lower or higher number of removals a day counts within 5 seconds, and 0 allows none', async () => {
  const own = await givenPage({ frees_per_day: 0 })
  const licence = await own.issue(own.planId)
  const machine = await activated(licence)
  const visitor = await linked(licence)
  expectProblem(await visitor.remove(machine.activation_id), 409, 'quota_exceeded')
  await setPage({ frees_per_day: 1 }, own.app)
  await eventually(async () => expectStatus(await visitor.remove(machine.activation_id), 204), {
    timeoutMs: 5_000,
  })
})

test('a machine with a licence file cannot be removed until its file has ended, and the answer says until when', async () => {
  const licence = await issue(planId)
  const { body } = await studio.activateOffline(licence, 30)
  const visitor = await linked(licence)
  const { detail: text } = expectProblem(await visitor.remove(body.activation_id), 409, 'conflict')
  expect(text).toContain(body.expires_at.slice(0, 10))
  expect(await visitor.licence()).toMatchObject({ frees_left: 3, activations_total: 1 })
})

test('a customer makes a licence file from the text of the SDK, within the days that the vendor allows', async () => {
  const own = await givenPage({ offline_days: 30 })
  const licence = await own.issue(own.planId)
  const visitor = await linked(licence)
  using product = own.install({ licenceKey: licence.key })
  const request = product.createOfflineRequest()
  const made = await visitor.offline({ request, days: 30 })
  expectStatus(made, 201)
  const { activation_id, expires_at, file } = made.body
  expect(made.body).toEqual({ activation_id, licence_id: licence.id, expires_at, file })
  expect(Math.abs(Date.parse(expires_at) - Date.now() - 30 * dayMs)).toBeLessThan(120_000)
  expect(await product.activateOffline(file)).toMatchObject({ status: 'licensed', licenceId: licence.id })
  const again = await visitor.offline({ request, days: 1 })
  expectStatus(again, 200)
  expect(again.body.activation_id).toBe(activation_id)

  using keyless = own.install()
  const withoutKey = await visitor.offline({ request: keyless.createOfflineRequest(), days: 1 })
  expectStatus(withoutKey, 201)
  expect(withoutKey.body.licence_id).toBe(licence.id)

  for (const days of [0, 31, -1, 1.5, '7', null])
    expectInvalid(await visitor.offline({ request, days }), '/days')
  const foreign = await own.issue(own.planId)
  using other = own.install({ licenceKey: foreign.key })
  const { fingerprint: _, ...incomplete } = JSON.parse(request) as Record<string, unknown>
  for (const wrong of [
    other.createOfflineRequest(),
    '',
    'x',
    'null',
    '[]',
    '7',
    '{}',
    request.slice(1),
    JSON.stringify(incomplete),
    JSON.stringify({ ...incomplete, fingerprint: 7 }),
    JSON.stringify({ ...incomplete, fingerprint: 'f', licence_key: 'x' }),
    7,
  ])
    expectInvalid(await visitor.offline({ request: wrong, days: 1 }), '/request')
  expect(await visitor.licence()).toMatchObject({ activations_total: 2 })
})

test('licence files are refused as for the vendor, and are 404 if the vendor allows none', async () => {
  const own = await givenPage({ offline_days: 7 })
  const request = () => own.install().createOfflineRequest()
  const full = await linked(await own.issue(own.planId, { restrictions: { max_activations: 1 } }))
  expectStatus(await full.offline({ request: request(), days: 1 }), 201)
  expectProblem(await full.offline({ request: request(), days: 1 }), 409, 'limit_reached')
  const suspended = await own.issue(own.planId)
  await verb('suspend', suspended.id)
  expectRefused(await (await linked(suspended)).offline({ request: request(), days: 1 }), 'suspended')
  const off = await linked(await issue(planId))
  for (const body of [{ request: request(), days: 1 }, { request: 'x', days: 1 }, {}])
    expectNotFound(await off.offline(body))
})

const { atProcessor } = studio.market

async function givenSubscriber() {
  const plan = await studio.sells({ mode: 'subscription', amount: 1_000 })
  const { licence, subscription } = await studio.buy(plan.id)
  return { licence, subscription, visitor: await linked(licence) }
}

/** Presses a button of the processor's page. */
async function press(url: string, action: string, subscription: string) {
  const answer = await fetch(url, {
    method: 'POST',
    body: new URLSearchParams({ action, subscription }),
    redirect: 'manual',
  })
  expect(answer.status).toBe(303)
}

test('the customer cancels on the processor’s page, changes that, and ends the subscription, and the licence follows', async () => {
  const { licence, subscription, visitor } = await givenSubscriber()
  const { renews_on, cancels_on } = (await visitor.licence()).subscription!
  expect(cancels_on).toBeNull()
  expect(renews_on).toMatch(isoTime)
  // The licence itself lasts for a period of grace longer.
  expect(Date.parse(renews_on!)).toBeLessThan(Date.parse(licence.expires_on!))
  const opened = await visitor.manage()
  expectStatus(opened, 201)
  const { url } = opened.body
  expect(opened.body).toEqual({ url })
  expect(await (await fetch(url)).text()).toContain(`href="${gatewayUrl}/customer"`)
  const becomes = (expected: unknown) =>
    eventually(async () => expect((await visitor.licence()).subscription).toEqual(expected))
  await press(url, 'period_end', subscription!)
  await becomes({ renews_on: null, cancels_on: renews_on })
  await press(url, 'undo', subscription!)
  await becomes({ renews_on, cancels_on: null })
  await press(url, 'now', subscription!)
  await becomes(null)
  await studio.becomes(licence.id, 'expired')
  expectProblem(await visitor.manage(), 409, 'conflict')
})

test('a new card on the processor’s page ends a suspension for failed payments', async () => {
  const { licence, subscription, visitor } = await givenSubscriber()
  for (let attempt = 1; attempt <= 3; attempt += 1) await atProcessor('fail-invoice', { subscription })
  await studio.becomes(licence.id, 'suspended')
  const { url } = (await visitor.manage()).body
  await press(url, 'card', subscription!)
  await studio.becomes(licence.id, 'active')
})

test('without a subscription, and if the processor refuses, managing it is 409 with the reason; while it cannot be reached, 503', async () => {
  const once = await studio.buy((await studio.sells()).id)
  for (const licence of [await issue(planId), once.licence]) {
    const visitor = await linked(licence)
    expect(await visitor.licence()).toMatchObject({ subscription: null })
    expect(expectProblem(await visitor.manage(), 409, 'conflict').detail).toContain('no subscription')
  }
  const { visitor } = await givenSubscriber()
  const account = studio.market.connectedAccount
  await atProcessor('settings', { account, billing_portal: false })
  expect(expectProblem(await visitor.manage(), 409, 'conflict').detail).toContain('configuration')
  await atProcessor('settings', { account, billing_portal: true })
  const path = '/v1/billing_portal/sessions'
  await atProcessor('faults', { answer: 'reset', next: 6, path, account })
  expectProblem(await visitor.manage(), 503, 'unavailable')
  await eventually(async () => expectStatus(await visitor.manage(), 201), { timeoutMs: 30_000 })
})
