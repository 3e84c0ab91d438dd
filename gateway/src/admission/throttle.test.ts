import { ServiceError } from '@licensing/grpc/errors'
import type { FastifyReply } from 'fastify'
import { expect, onTestFinished, test, vi } from 'vitest'
import { appId, otherAppId, startGateway } from '../../test/gateway.ts'
import type { TestGateway } from '../../test/gateway.ts'
import { Throttle } from './throttle.ts'

const activation = {
  licence_key: 'AAAAA-AAAAA-AAAAA-AAAAA-AAAAA',
  fingerprint: 'f',
  host: 'h',
  product_version: '1',
}
const good = 'GGGGG-GGGGG-GGGGG-GGGGG-GGGGG'

function activate({ api, answers }: TestGateway, address: string, licenceKey = activation.licence_key) {
  answers.products.activate = async ({ licenceKey: key }) => {
    if (key !== good) throw new ServiceError('not_found', 'there is no such licence key')
    return { grant: { activationId: 'act_1', licenceId: 'lic_1', token: 't' }, created: true }
  }
  return api.post('/v1/activations', {
    key: null,
    headers: { 'x-forwarded-for': address },
    body: { ...activation, licence_key: licenceKey },
  })
}

test('each key has its own number of requests per minute, and every answer has the rest', async () => {
  await using gateway = await startGateway({ perKey: 3 })
  for (const left of [2, 1, 0]) {
    const answer = await gateway.api.get('/v1/licences/lic_no')
    expect(answer.status).toBe(404)
    expect(answer.headers.get('ratelimit-policy')).toBe('"key";q=3;w=60')
    expect(answer.headers.get('ratelimit')).toMatch(new RegExp(`^"key";r=${left};t=(60|5\\d)$`))
  }
  const refused = await gateway.api.get('/v1/licences/lic_no')
  expect(refused.status).toBe(429)
  expect(refused.body).toMatchObject({ code: 'rate_limited', status: 429, type: '/errors/rate_limited' })
  const wait = Number(refused.headers.get('retry-after'))
  expect(wait).toBeGreaterThanOrEqual(50)
  expect(wait).toBeLessThanOrEqual(60)
  expect((await gateway.api.get('/v1/licences/lic_no', { key: gateway.keyWith(['read']) })).status).toBe(404)
})

test('product requests are limited per minute and address', async () => {
  await using gateway = await startGateway({ perAddress: 5 })
  for (const left of [4, 3, 2, 1, 0]) {
    const answer = await activate(gateway, '203.0.113.7', good)
    expect(answer.status).toBe(201)
    expect(answer.headers.get('ratelimit-policy')).toBe('"address";q=5;w=60')
    expect(answer.headers.get('ratelimit')).toContain(`r=${left};`)
  }
  const refused = await activate(gateway, '203.0.113.7', good)
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect((await activate(gateway, '203.0.113.8', good)).status).toBe(201)
})

test('after too many wrong licence keys of an address, keys that were right from there still work, and no other key is looked up', async () => {
  await using gateway = await startGateway({ perAddress: 600, wrongKeysPerAddress: 60 })
  const [here, elsewhere] = ['203.0.113.7', '203.0.113.8']
  expect((await activate(gateway, here, good)).status).toBe(201)
  for (let count = 0; count < 60; count++) expect((await activate(gateway, here)).status).toBe(404)
  const before = gateway.calls.length
  for (const key of [activation.licence_key, 'HHHHH-HHHHH-HHHHH-HHHHH-HHHHH']) {
    const refused = await activate(gateway, here, key)
    expect(refused.status).toBe(429)
    expect(refused.headers.get('ratelimit-policy')).toBe('"wrong-keys";q=60;w=60')
  }
  expect(gateway.calls.length).toBe(before)
  for (const spelling of [good, good.toLowerCase().replaceAll('-', ' ')]) {
    expect((await activate(gateway, here, spelling)).status).toBe(201)
  }
  expect((await activate(gateway, elsewhere, activation.licence_key)).status).toBe(404)
  expect((await activate(gateway, elsewhere, good)).status).toBe(201)
})

test.each(['licence_refused', 'limit_reached', 'quota_exceeded'] as const)(
  'a licence key that is refused with %s is right',
  async (code) => {
    await using gateway = await startGateway({ wrongKeysPerAddress: 1 })
    const { api, answers } = gateway
    answers.products.activate = async () => {
      throw new ServiceError(code, 'not at the moment')
    }
    const statusOf = async () => (await api.post('/v1/activations', { key: null, body: activation })).status
    const refused = await statusOf()
    answers.products.activate = async () => {
      throw new ServiceError('not_found', 'there is no such licence key')
    }
    for (const status of [404, 429]) {
      const body = { ...activation, licence_key: 'other' }
      expect((await api.post('/v1/activations', { key: null, body })).status).toBe(status)
    }
    answers.products.activate = async () => {
      throw new ServiceError(code, 'not at the moment')
    }
    expect(await statusOf()).toBe(refused)
  },
)

test('legacy keys are limited like licence keys, and a right one of one application is not right for another', async () => {
  await using gateway = await startGateway({ wrongKeysPerAddress: 3 })
  const { api, answers } = gateway
  answers.products.migrateLegacyKey = async ({ applicationId, legacyKey }) => {
    if (applicationId === appId && legacyKey === 'OLD-1') return { licenceId: 'lic_1', key: good }
    throw new ServiceError('not_found', 'there is no licence for this legacy key')
  }
  const migrate = async (legacyKey: string, application = appId) => {
    const body = { legacy_key: legacyKey }
    return (await api.post(`/v1/apps/${application}/migrate`, { key: null, body })).status
  }
  expect(await migrate('OLD-1')).toBe(200)
  for (let count = 0; count < 10; count++) {
    expect(await migrate('OLD-1', 'app_01k9zj3v8qe5ktw2m4x6r7n8zz')).toBe(404)
  }
  for (const key of ['a', 'b', 'c']) expect(await migrate(key)).toBe(404)
  expect(await migrate('d')).toBe(429)
  expect(await migrate(' OLD-1\u200b')).toBe(200)
  expect(await migrate('OLD-1', otherAppId)).toBe(429)
})

test('genuine tokens of freed activations and unknown plan codes are not wrong keys; forged tokens are, and valid tokens still work', async () => {
  await using gateway = await startGateway({ wrongKeysPerAddress: 60 })
  const { api, answers } = gateway
  const check = async ({ token }: { token: string }) => {
    if (token === 'freed') throw new ServiceError('not_found', 'there is no such activation')
    if (token !== 'valid') throw new ServiceError('unauthenticated', 'send this activation’s own token')
    return {}
  }
  Object.assign(answers.products, {
    recordCallHome: check,
    deactivate: check,
    release: check,
    checkActivation: check,
  })
  answers.products.refreshActivation = async ({ token }) => {
    await check({ token })
    return { activationId: 'act_1', licenceId: 'lic_1', token: 'valid' }
  }
  answers.products.startTrial = async () => {
    throw new ServiceError('not_found', 'there is no such plan')
  }
  const path = '/v1/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const body = { host: 'h', product_version: '1' }
  const withToken = async (token: string) =>
    Promise.all([
      api.post(`${path}/refresh`, { key: token, body }),
      api.post(`${path}/call-home`, { key: token, body }),
      api.post(`${path}/release`, { key: token }),
      api.delete(path, { key: token }),
      api.post(`${path}/refresh`, { key: token, body: '{' }),
    ]).then((answered) => answered.map(({ status }) => status))
  const trial = { plan_code: 'gone', fingerprint: 'f', host: 'h', product_version: '1' }
  for (let count = 0; count < 20; count++) {
    expect(await withToken('freed')).toEqual([404, 404, 404, 404, 404])
    expect((await api.post(`/v1/apps/${appId}/trials`, { key: null, body: trial })).status).toBe(404)
  }
  for (let count = 0; count < 12; count++)
    expect(await withToken('forged')).toEqual([401, 401, 401, 401, 401])
  expect(await withToken('forged')).toEqual([429, 429, 429, 429, 429])
  expect(await withToken('valid')).toEqual([200, 204, 204, 204, 400])
  expect(await withToken('freed')).toEqual([404, 404, 404, 404, 404])
  expect((await api.post('/v1/activations', { key: null, body: activation })).status).toBe(429)
})

test('an address’s right keys are remembered for a day', () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const throttle = new Throttle({ perKey: 1, perAddress: 1, wrongKeysPerAddress: 1, trialsPerAddress: 1 })
  const reply = { header: () => reply } as unknown as FastifyReply
  const isLookedUp = () => {
    throttle.countWrongKey(reply, 'here')
    try {
      throttle.checkKey(reply, 'here', 'right')
      return true
    } catch {
      return false
    }
  }
  throttle.rememberRightKey('here', 'right')
  vi.advanceTimersByTime(24 * 3_600_000 - 1_000)
  expect(isLookedUp()).toBe(true)
  vi.advanceTimersByTime(24 * 3_600_000)
  expect(isLookedUp()).toBe(false)
})

test('if many wrong licence keys arrive at once, only the allowed number is checked', async () => {
  await using gateway = await startGateway({ wrongKeysPerAddress: 10 })
  const answers = await Promise.all(Array.from({ length: 40 }, () => activate(gateway, '203.0.113.7')))
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(10)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(30)
})

test('licensing counts new trials by address, the /64 of an IPv6 address, and a refusal says how many are allowed', async () => {
  await using gateway = await startGateway({ trialsPerAddress: 20 })
  const asked: unknown[] = []
  gateway.answers.products.startTrial = async ({ address, maxForAddress }) => {
    asked.push([address, maxForAddress])
    throw new ServiceError('quota_exceeded', 'too many', { members: { limit: maxForAddress } })
  }
  const start = (address: string) =>
    gateway.api.post(`/v1/apps/${appId}/trials`, {
      key: null,
      headers: { 'x-forwarded-for': address },
      body: { plan_code: 'pro', fingerprint: 'm', host: 'h', product_version: '1' },
    })
  const refused = await start('203.0.113.7:50001')
  expect([refused.status, refused.body]).toMatchObject([409, { code: 'quota_exceeded', limit: 20 }])
  await start('[2001:db8:1:2::9]:443')
  await start('2001:db8:1:2:ffff::1')
  expect(asked).toEqual([
    ['203.0.113.7', 20],
    ['2001:db8:1:2', 20],
    ['2001:db8:1:2', 20],
  ])
})

test('tokens that were never a customer’s session are wrong keys of their address; ended ones are not, and sessions still work', async () => {
  await using gateway = await startGateway({ wrongKeysPerAddress: 3 })
  const { api, answers } = gateway
  const session = { accountId: 'acct_1', applicationId: appId, licenceId: 'lic_1' }
  answers.customers.findCustomerSession = async ({ token }) =>
    token === 'cst_good' ? { session, hasEnded: false } : { hasEnded: token === 'cst_ended' }
  answers.customers.freeCustomerActivation = async () => ({})
  answers.catalog.findCustomerPage = async () => ({
    name: 'Studio',
    page: { freesPerDay: 3, offlineDays: 0, keySignIn: true },
  })
  answers.customers.signInWithKey = async () => {
    throw new ServiceError('not_found', 'there is no licence with this key')
  }
  const path = '/v1/customer/activations/act_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const remove = async (key: string | null, address = '192.0.2.1') =>
    (await api.delete(path, { key, headers: { 'x-forwarded-for': address } })).status
  const signIn = async (licence_key: string, address = '192.0.2.1') => {
    const request = { key: null, body: { licence_key }, headers: { 'x-forwarded-for': address } }
    return (await api.post(`/v1/apps/${appId}/customer-sessions`, request)).status
  }
  for (let count = 0; count < 10; count += 1) expect(await remove('cst_ended')).toBe(401)
  for (let count = 0; count < 10; count += 1) expect(await remove(null)).toBe(401)
  expect(await signIn('x')).toBe(404)
  for (let count = 0; count < 2; count += 1) expect(await remove('cst_forged')).toBe(401)
  expect([await remove('cst_forged'), await signIn('y')]).toEqual([429, 429])
  expect([await remove('cst_good'), await remove('cst_ended')]).toEqual([204, 401])
  expect([await remove('cst_forged', '192.0.2.2'), await signIn('y', '192.0.2.2')]).toEqual([401, 404])
})

test('calls of customers are limited by address, like those of products', async () => {
  await using gateway = await startGateway({ perAddress: 2 })
  gateway.answers.customers.findCustomerSession = async () => ({ hasEnded: true })
  const get = async () => (await gateway.api.get('/v1/customer/licence', { key: 'cst_x' })).status
  expect([await get(), await get(), await get()]).toEqual([401, 401, 429])
})

/** A request from an address for each limit that counts addresses, and the settings that allow one such request. */
const limitedByAddress: [
  string,
  Parameters<typeof startGateway>[0],
  (gateway: TestGateway, address: string) => Promise<{ status: number }>,
][] = [
  ['product requests', { perAddress: 1 }, (gateway, address) => activate(gateway, address, good)],
  ['wrong licence keys', { wrongKeysPerAddress: 1 }, (gateway, address) => activate(gateway, address)],
  [
    'wrong API keys',
    { perKey: 1 },
    ({ api }, address) =>
      api.get('/v1/events', { key: 'lsk_wrong', headers: { 'x-forwarded-for': address } }),
  ],
  [
    'unknown routes',
    { perKey: 1 },
    ({ api }, address) => api.get('/v1/nothing', { key: null, headers: { 'x-forwarded-for': address } }),
  ],
  [
    'sign-ins with a wrong key',
    { perKey: 1 },
    ({ api }, address) =>
      api.post('/portal/session', {
        key: null,
        headers: { 'x-forwarded-for': address },
        body: { key: 'lsk_wrong' },
      }),
  ],
  [
    'clicks on the link of an e-mail',
    { perKey: 1 },
    ({ api }, address) =>
      api.get('/confirm-alert-email?token=wrong', { key: null, headers: { 'x-forwarded-for': address } }),
  ],
]

test.each(limitedByAddress)(
  '%s: ports, the addresses of an IPv6 /64 and texts that are no address have no allowance of their own',
  async (_what, limits, send) => {
    await using gateway = await startGateway(limits)
    const isLimited = async (address: string) => (await send(gateway, address)).status === 429
    for (const same of [
      [
        '198.51.100.9:50001',
        '198.51.100.9:50002',
        '198.51.100.9',
        '::ffff:198.51.100.9',
        '[::ffff:c633:6409]:1',
      ],
      ['[2001:db8:0:7::1]:443', '[2001:db8:0:7::1]:444', '2001:db8:0:7:ffff::2', '2001:DB8:0:7::3%eth0'],
      ['unknown', 'for=198.51.100.10', '_hidden', '198.51.100.11:port'],
    ]) {
      expect(await isLimited(`192.0.2.1, ${same[0]}`), same[0]).toBe(false)
      for (const address of same) expect(await isLimited(address), address).toBe(true)
    }
    expect(await isLimited('2001:db8:0:8::1')).toBe(false)
    // A proxy between the client and the last one, and empty entries.
    expect(await isLimited('198.51.100.9, 198.51.100.12, ')).toBe(false)
  },
)

test('answers to unknown routes, wrong methods and preflights have rate limit headers too', async () => {
  await using gateway = await startGateway()
  for (const request of [
    gateway.api.get('/v1/nothing'),
    gateway.api.get('/v1/activations'),
    fetch(`${gateway.url}/v1/activations`, { method: 'OPTIONS' }),
  ]) {
    expect((await request).headers.get('ratelimit')).toBeTruthy()
    expect((await request).headers.get('ratelimit-policy')).toBeTruthy()
  }
})
