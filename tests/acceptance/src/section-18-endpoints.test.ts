import { verifyWebhook } from '@licensing/sdk/webhooks'
import type { ReceivedRequest } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { createHmac, randomUUID } from 'node:crypto'
import { Webhook as StandardWebhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { afterEach, expect, test } from 'vitest'
import { envelopeOf, givenEndpoint, signatureOf, verifies } from './delivery.ts'
import type { Delivery } from './delivery.ts'
import { givenMarket, givenShop } from './shop.ts'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'
import type { Page } from './vendor.ts'

const market = await givenMarket()
const { stack, receiver } = market
afterEach(() => receiver.answerWith({}))

interface Endpoint {
  id: string
  url: string
  subscribed_events: string
  status: string
  description: string | null
  headers: Record<string, null> | null
  plans: string[] | null
  paused: boolean
  signature: string
  disables_at: string | null
  health: { pending: number; failing_since: string | null }
  secret?: string
}

/** An application with an endpoint, and functions that change it and cause events. */
async function given(events = '*') {
  const vendor = await givenVendor(stack)
  const { api, app, plan, issue, verb } = vendor
  const endpoint = await givenEndpoint(vendor, receiver, events)
  const { id: planId } = await plan()
  const change = async (body: object) => {
    const changed = await api.patch<Endpoint>(endpoint.at, { body })
    expectStatus(changed, 200)
    return changed.body
  }
  return {
    ...vendor,
    endpoint,
    planId,
    change,
    refused: (body: object) => api.patch(endpoint.at, { body }),
    show: async () => (await api.get<Endpoint>(endpoint.at)).body,
    /** Suspends a new licence on a plan. */
    happen: async (onPlan = planId) => {
      const { id } = await issue(onPlan)
      expectStatus(await verb('suspend', id), 200)
      return id
    },
    deliveries: (query = '') => allRows<Delivery>(api, `${app}/webhook-deliveries${query && `?${query}`}`),
  }
}

const licencesOf = (requests: readonly ReceivedRequest[]) =>
  requests.map((request) => String(envelopeOf(request).data.object['licence_id']))

test('all fields can be given at creation, are shown everywhere, and each can be changed alone', async () => {
  const { api, app, plan } = await given()
  const [one, other] = [await plan(), await plan()]
  const fields = {
    url: receiver.url('/full'),
    subscribed_events: 'licence.suspended',
    description: 'Shop',
    plans: [one.id],
    paused: true,
    signature: 'standard',
  }
  const body = { ...fields, headers: { 'X-Api-Key': 'k-1', Authorization: 'Bearer a b' } }
  const made = await api.post<Endpoint>(`${app}/webhook-endpoints`, { body })
  expectStatus(made, 201)
  const shown = { ...fields, headers: { 'X-Api-Key': null, Authorization: null }, status: 'enabled' }
  expect(made.body).toMatchObject(shown)
  const at = `${app}/webhook-endpoints/${made.body.id}`
  const [listed] = (await api.get<Page<Endpoint>>(`${app}/webhook-endpoints`)).body.data
  const { body: found } = await api.get<Endpoint>(at)
  expect(found).toMatchObject({ ...shown, disables_at: null })
  expect(listed).toEqual(found)
  expect(made.body).toEqual({ ...found, secret: expect.any(String) })

  const changes = [
    { url: receiver.url('/other') },
    { subscribed_events: '*' },
    { description: null },
    { headers: { 'X-Other': 'v' } },
    { headers: null },
    { plans: [other.id, one.id] },
    { plans: null },
    { paused: false },
  ]
  let expected = found
  for (const change of changes) {
    const { status, body } = await api.patch<Endpoint>(at, { body: change })
    const headers = 'headers' in change && change.headers ? { headers: { 'X-Other': null } } : {}
    expected = { ...expected, ...change, ...headers } as Endpoint
    expect([status, body]).toEqual([200, expected])
  }
  expect((await api.get(at)).body).toEqual(expected)
  const changed = await api.patch<Endpoint>(at, { body: { signature: 'default' } })
  expect(changed.body).toEqual({ ...expected, signature: 'default', secret: expect.any(String) as string })
  const again = await api.patch<Endpoint>(at, { body: { signature: 'default' } })
  expect(again.body).toEqual({ ...expected, signature: 'default' })
  expect((await api.patch(at, { body: { headers: {} } })).body).toMatchObject({ headers: null })
  expect((await api.patch(at, { body: {} })).body).toEqual({ ...expected, signature: 'default' })

  const plain = await api.post<Endpoint>(`${app}/webhook-endpoints`, {
    body: { url: receiver.url('/plain'), subscribed_events: '*' },
  })
  const none = { description: null, headers: null, plans: null, paused: false, signature: 'default' }
  expect(plain.body).toMatchObject(none)
})

test('a wrong value is refused with its place, and nothing is changed', async () => {
  const { api, app, endpoint, refused, show, plan } = await given()
  const before = await show()
  const { id: planId } = await plan()
  const elsewhere = await (await givenVendor(stack)).plan()
  const many = Array<string>(51).fill(unknownId('pln'))
  for (const [body, pointer] of [
    [{ url: null }, '/url'],
    [{ url: 'http://example.com/' }, '/url'],
    [{ url: 'https://10.0.0.1/' }, '/url'],
    [{ subscribed_events: null }, '/subscribed_events'],
    [{ subscribed_events: 'licence.gilded' }, '/subscribed_events'],
    [{ paused: null }, '/paused'],
    [{ paused: 'yes' }, '/paused'],
    [{ signature: null }, '/signature'],
    [{ signature: 'svix' }, '/signature'],
    [{ description: 'x'.repeat(201) }, '/description'],
    [{ plans: [] }, '/plans'],
    [{ plans: many }, '/plans'],
    [{ plans: [planId, planId] }, '/plans/1'],
    [{ plans: [planId, elsewhere.id] }, '/plans/1'],
    [{ plans: [unknownId('pln')] }, '/plans/0'],
    [{ plans: ['pro'] }, '/plans/0'],
    [{ description: 'changed', plans: [elsewhere.id] }, '/plans/0'],
  ] as const) {
    const answer = await refused(body)
    const { errors } = expectProblem(answer, 422, 'validation_failed')
    expect(errors?.map(({ pointer: at }) => at)).toContain(pointer)
  }
  expect(await show()).toEqual(before)
  const body = { url: receiver.url(), subscribed_events: '*', plans: [elsewhere.id] }
  expectInvalid(await api.post(`${app}/webhook-endpoints`, { body }), '/plans/0')
  const missing = `${app}/webhook-endpoints/${unknownId('whe')}`
  expectNotFound(await api.patch(missing, { body: { paused: true } }))
  const { key } = await (await givenVendor(stack)).keyWith({ scopes: ['read', 'issue', 'revoke'] })
  expectProblem(await api.patch(endpoint.at, { key, body: {} }), 403, 'insufficient_scope')
})

test('a disabled endpoint cannot be changed', async () => {
  const { api, endpoint, refused } = await given()
  expectStatus(await api.delete(endpoint.at), 204)
  const problem = expectProblem(await refused({ paused: true }), 409, 'conflict')
  expect(problem).toMatchObject({ current: 'disabled', allowed: [] })
})

test('a wrong header is refused, and its value is never repeated', async () => {
  const { api, app, refused, show } = await given()
  const secret = 'sEcReT-vAlUe'
  const reserved =
    'Host User-Agent connection Transfer-Encoding Content-Type content-length Webhook-Signature webhook-x Proxy-Authorization TE Trailer Upgrade Keep-Alive Expect'
  const wrong: object[] = [
    ...reserved.split(' ').map((name) => ({ [name]: secret })),
    ...['', 'a b', 'a:b', `X-${secret}\r\nX`, 'ü', 'x'.repeat(101)].map((name) => ({ [name]: secret })),
    ...[
      `${secret}\r\nX-Other: 1`,
      `${secret}\n`,
      ` ${secret}`,
      `${secret} `,
      `${secret}\t1`,
      `ü${secret}`,
      '',
    ].map((value) => ({ 'X-Api-Key': value })),
    { 'X-Api-Key': secret.padEnd(1_001, 'x') },
    { 'X-Api-Key': null },
    { 'X-Api-Key': 1 },
    { 'X-Api-Key': [secret] },
    { 'X-Api-Key': secret, 'x-api-KEY': secret },
    Object.fromEntries(Array.from({ length: 11 }, (_, at) => [`X-${at}`, secret])),
  ]
  for (const headers of wrong) {
    for (const answer of [
      await refused({ headers }),
      await api.post(`${app}/webhook-endpoints`, {
        body: { url: receiver.url(), subscribed_events: '*', headers },
      }),
    ]) {
      const { errors } = expectProblem(answer, 422, 'validation_failed')
      expect(errors![0]!.pointer, JSON.stringify(headers)).toMatch(/^\/headers/)
      expect(JSON.stringify(answer.body)).not.toContain(secret)
    }
  }
  for (const headers of ['x', [secret], 1]) expectInvalid(await refused({ headers }), '/headers')
  expect(await show()).toMatchObject({ headers: null })
})

test('headers are sent with every attempt, replaced as a whole, and their values are in no answer', async () => {
  const { api, app, endpoint, change, happen, deliveries, show } = await given()
  const value = `v ${randomUUID()} !~`
  const names = ['X-Api-Key', '__proto__', 'accept', ...Array.from({ length: 7 }, (_, at) => `x-${at}`)]
  const headers = Object.fromEntries(names.map((name) => [name, value]))
  const none = Object.fromEntries(names.map((name) => [name, null]))
  const changed = await change({ headers })
  expect(Object.entries(changed.headers!)).toEqual(Object.entries(none))
  expect(Object.entries((await show()).headers!)).toEqual(Object.entries(none))
  receiver.answerWith({ status: 500, body: 'refused' })
  await happen()
  const [first] = await endpoint.next(1)
  // Node's server loses a header with the name __proto__.
  for (const name of names.filter((one) => one !== '__proto__')) {
    expect(first!.headers[name.toLowerCase()], name).toBe(value)
  }
  expect(verifies(first!, endpoint.secret)).toBe(true)
  const [delivery] = await eventually(async () => {
    const rows = await deliveries()
    expect(rows).toMatchObject([{ attempt_count: 1 }])
    return rows
  })
  receiver.answerWith({})
  await change({ headers: { 'X-Other': 'next' } })
  const one = `${app}/webhook-deliveries/${delivery!.id}`
  expectStatus(await api.post(`${one}/replay`), 202)
  const [, second] = await endpoint.next(2)
  expect(second!.headers).toMatchObject({ 'x-other': 'next', 'webhook-attempt': '2' })
  expect(second!.headers).not.toHaveProperty('x-api-key')
  for (const path of [one, endpoint.at, `${app}/webhook-endpoints`, `${app}/webhook-deliveries`]) {
    expect(JSON.stringify((await api.get(path)).body)).not.toContain(value)
  }
})

test('what has not been sent goes to the new address, also if the types or the plans were narrowed; what came before is not sent', async () => {
  const { endpoint, change, happen, ...vendor } = await given()
  const other = await givenEndpoint(vendor, receiver)
  await change({ paused: true })
  const licence = await happen()
  await other.next(1)
  const path = `/moved-${randomUUID()}`
  await change({ url: receiver.url(path), subscribed_events: 'licence.revoked', paused: false })
  const moved = () => receiver.requests.filter((request) => request.path === path)
  await eventually(() => expect(licencesOf(moved())).toEqual([licence]), { timeoutMs: 5_000 })
  await happen()
  await other.next(2)
  await change({ subscribed_events: '*', paused: true })
  const waited = await happen()
  await other.next(3)
  const { id: another } = await vendor.plan()
  await change({ plans: [another], paused: false })
  await eventually(() => expect(licencesOf(moved())).toEqual([licence, waited]))
  await happen()
  const last = await happen(another)
  await eventually(() => expect(licencesOf(moved())).toEqual([licence, waited, last]))
  await other.next(5)
  expect(licencesOf(moved())).toEqual([licence, waited, last])
  expect(endpoint.arrived()).toEqual([])
})

test('an endpoint with plans gets events about licences on these plans, and events about no licence', async () => {
  const shop = await givenShop(market)
  const { api, app, plan, issue, verb } = shop
  const [wanted, other] = [await shop.sells(), await shop.sells()]
  const endpoint = await givenEndpoint(shop, receiver)
  expectStatus(await api.patch(endpoint.at, { body: { plans: [wanted.id] } }), 200)
  const [mine, others] = [await issue(wanted.id), await issue(other.id)]
  for (const { id } of [others, mine]) expectStatus(await verb('suspend', id), 200)
  const customer = randomUUID()
  const { licence } = await shop.buy(other.id, customer)
  await shop.buy(wanted.id, customer)
  const { id: retired } = await shop.sells({}, await plan())
  const opened = await shop.checkout(retired)
  expectStatus(await api.post(`${app}/plans/${retired}/archive`), 200)
  await market.atProcessor('pay', { session: opened.remote })
  await shop.reaches(opened.id, 'provision_failed')

  const heard = () =>
    endpoint
      .events()
      .map(({ type, data }) => `${type} ${(data.object['licence_id'] as string | undefined) ?? ''}`)
  const expected = [
    `licence.suspended ${mine.id}`,
    `licence.plan_changed ${licence.id}`,
    `payment.succeeded ${licence.id}`,
    'payment.provision_failed ',
  ]
  await eventually(() => expect(heard().toSorted()).toEqual(expected.toSorted()))
  expectStatus(await api.post(`${endpoint.at}/test`), 202)
  await eventually(() => expect(heard()).toContain('webhook.test '))
  // Another endpoint has received everything, and this one can only recover what it would have got.
  await eventually(() => expect(shop.heard('licence.suspended', others.id)).toHaveLength(1))
  const body = { since: new Date(Date.now() - 60_000).toISOString() }
  expect((await api.post(`${endpoint.at}/recover`, { body })).body).toEqual({ deliveries: 0 })
  expectStatus(await api.patch(endpoint.at, { body: { plans: null } }), 200)
  const recovered = await api.post<{ deliveries: number }>(`${endpoint.at}/recover`, { body })
  expect(recovered.body.deliveries).toBe(shop.events().length - expected.length)
})

test('a paused endpoint keeps its deliveries, and sends them in order when it is resumed', async () => {
  const { api, app, endpoint, change, happen, deliveries, show } = await given()
  const { id: away } = await givenEndpoint({ ...(await given()), api, app }, receiver, 'licence.revoked')
  await change({ paused: true })
  const licences: string[] = []
  for (let each = 0; each < 6; each += 1) licences.push(await happen())
  const rows = await eventually(async () => {
    const found = await deliveries()
    expect(found).toHaveLength(6)
    return found
  })
  const waiting = { status: 'pending', attempt_count: 0, next_attempt_at: null }
  for (const row of rows) expect(row).toMatchObject(waiting)
  await eventually(async () => expect(await show()).toMatchObject({ health: { pending: 6 } }))
  expect(await show()).toMatchObject({ status: 'enabled', paused: true, disables_at: null })

  const [row] = rows
  const replay = `${app}/webhook-deliveries/${row!.id}/replay`
  const since = new Date(Date.now() - 60_000).toISOString()
  for (const answer of [
    await api.post(`${endpoint.at}/test`),
    await api.post(`${endpoint.at}/recover`, { body: { since } }),
    await api.post(replay),
    await api.post(replay, { body: { endpoint_id: endpoint.id } }),
  ]) {
    const problem = expectProblem(answer, 409, 'conflict')
    expect(problem).toMatchObject({ current: 'paused', allowed: ['resume'] })
  }
  expectStatus(await api.post(replay, { body: { endpoint_id: away } }), 202)
  expectStatus(await api.post(`${endpoint.at}/rotate-secret`), 200)
  expect(endpoint.arrived()).toEqual([])

  await change({ paused: false })
  await endpoint.next(6)
  expect(licencesOf(endpoint.arrived()).toSorted()).toEqual(licences.toSorted())
  // At first two attempts are in flight, so neighbours may change places.
  licencesOf(endpoint.arrived()).forEach((id, at) =>
    expect(Math.abs(licences.indexOf(id) - at)).toBeLessThanOrEqual(2),
  )
  await eventually(async () => {
    const found = await deliveries(`endpoint=${endpoint.id}`)
    expect(found.map(({ status }) => status)).toEqual(Array<string>(6).fill('delivered'))
  })
})

test('the standard signature is verified by standardwebhooks, svix and the SDK, and is the only signature', async () => {
  const { endpoint, change, happen } = await given()
  const { secret = '' } = await change({ signature: 'standard' })
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  await happen()
  const [{ body, headers } = receiver.requests[0]!] = await endpoint.next(1)
  const own = headers as Record<string, string>
  const event: unknown = JSON.parse(body.toString())
  expect(new StandardWebhook(secret).verify(body.toString(), own)).toEqual(event)
  // It returns nothing, and throws if the signature is wrong.
  new SvixWebhook(secret).verify(body.toString(), own)
  expect(() => new SvixWebhook(secret).verify(`${body.toString()} `, own)).toThrow(/./)
  expect(await verifyWebhook(body, headers, secret)).toEqual(event)
  expect(own['webhook-id']).toBe((event as { id: string }).id)
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64')
  expect(key).toHaveLength(32)
  const mac = createHmac('sha256', key).update(`${own['webhook-id']}.${own['webhook-timestamp']}.`)
  expect(own['webhook-signature']).toBe(`v1,${mac.update(body).digest('base64')}`)
  expect(Object.keys(own).filter((name) => name.includes('signature'))).toEqual(['webhook-signature'])
  expect(() => new StandardWebhook(endpoint.secret).verify(body.toString(), own)).toThrow(/./)

  const { secret: usual = '' } = await change({ signature: 'default' })
  expect(usual).toMatch(/^whsec_[A-Za-z0-9_-]{43}$/)
  await happen()
  const [, second] = await endpoint.next(2)
  expect(verifies(second!, usual)).toBe(true)
  expect(second!.headers).not.toHaveProperty('webhook-timestamp')
})

test.each(['default', 'standard'])(
  'during the overlap of a rotation attempts have a %s signature for each secret, until another rotation',
  async (signature) => {
    const { api, endpoint, change, happen } = await given()
    const former = (await change({ signature })).secret ?? endpoint.secret
    const rotate = async (body?: object) => {
      const answer = await api.post<{ secret: string }>(`${endpoint.at}/rotate-secret`, { body })
      expectStatus(answer, 200)
      return answer.body.secret
    }
    for (const hours of [-1, 169, 1.5, '1']) {
      expectInvalid(
        await api.post(`${endpoint.at}/rotate-secret`, { body: { overlap_hours: hours } }),
        '/overlap_hours',
      )
    }
    const verify = ({ body, headers }: ReceivedRequest, secret: string) =>
      verifyWebhook(body, headers, secret).then(
        () => true,
        () => false,
      )
    const sent = async () => {
      const before = endpoint.arrived().length
      await happen()
      return (await endpoint.next(before + 1)).at(-1)!
    }
    const next = await rotate({ overlap_hours: 168 })
    const both = await sent()
    expect([await verify(both, next), await verify(both, former)]).toEqual([true, true])
    const header = String(both.headers['webhook-signature'])
    expect(header).toMatch(
      signature === 'default'
        ? /^t=\d+,v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/
        : /^v1,[A-Za-z0-9+/]{43}= v1,[A-Za-z0-9+/]{43}=$/,
    )
    if (signature === 'standard') {
      for (const secret of [former, next]) {
        new StandardWebhook(secret).verify(both.body.toString(), both.headers as Record<string, string>)
      }
    } else {
      const [, t, v1] = /^t=(\d+),v1=([0-9a-f]+),/.exec(header)!
      expect(createHmac('sha256', next).update(`${t}.`).update(both.body).digest('hex')).toBe(v1)
    }
    const last = await rotate()
    const one = await sent()
    const verdicts = [await verify(one, last), await verify(one, next), await verify(one, former)]
    expect(verdicts).toEqual([true, false, false])

    const again = await rotate({ overlap_hours: 1 })
    const other = signature === 'default' ? 'standard' : 'default'
    const { secret: changed = '' } = await change({ signature: other })
    const alone = await sent()
    expect([await verify(alone, changed), await verify(alone, again)]).toEqual([true, false])
    if (other === 'default') signatureOf(alone)
    // The stack's hour of overlap lasts a second.
    const former2 = changed
    const newest = await rotate({ overlap_hours: 1 })
    await eventually(async () => {
      const request = await sent()
      expect([await verify(request, newest), await verify(request, former2)]).toEqual([true, false])
    })
  },
)

test('an endpoint whose deliveries fail shows when it will be disabled', async () => {
  const { endpoint, change, happen, show } = await given()
  expect(await show()).toMatchObject({ disables_at: null })
  receiver.answerWith({ status: 500 })
  await happen()
  await endpoint.next(1)
  const failing = await eventually(async () => {
    const found = await show()
    expect(found.disables_at).toMatch(isoTime)
    return found
  })
  // The stack waits ten minutes after each of the first eleven attempts.
  const leftMs = Date.parse(failing.disables_at!) - Date.now()
  expect(leftMs).toBeGreaterThan(0.8 * 6_600_000)
  expect(leftMs).toBeLessThan(1.2 * 6_600_000)
  expect(await change({ paused: true })).toMatchObject({ disables_at: null })
  expect(await change({ paused: false })).toMatchObject({ disables_at: expect.any(String) as string })
})
