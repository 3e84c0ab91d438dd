import { ServiceError } from '@licensing/grpc/errors'
import { expect, test } from 'vitest'
import { appId, startGateway } from '../testing/gateway.ts'
import type { TestGateway } from '../testing/gateway.ts'

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

test('a caller with too many wrong licence keys must wait, even with a correct one; others need not', async () => {
  await using gateway = await startGateway({ perAddress: 600, wrongKeysPerAddress: 60 })
  for (let count = 0; count < 60; count++) expect((await activate(gateway, '203.0.113.7')).status).toBe(404)
  for (const key of [activation.licence_key, good]) {
    expect((await activate(gateway, '203.0.113.7', key)).status).toBe(429)
  }
  expect((await activate(gateway, '203.0.113.8', good)).status).toBe(201)
})

test('if many wrong licence keys arrive at once, only the allowed number is checked', async () => {
  await using gateway = await startGateway({ wrongKeysPerAddress: 10 })
  const answers = await Promise.all(Array.from({ length: 40 }, () => activate(gateway, '203.0.113.7')))
  expect(answers.filter(({ status }) => status === 404)).toHaveLength(10)
  expect(answers.filter(({ status }) => status === 429)).toHaveLength(30)
})

/** Asks for a trial. Licensing gives each fingerprint one trial. */
function startTrial({ api, answers }: TestGateway, address: string, fingerprint: string, tried: Set<string>) {
  answers.products.startTrial = async ({ fingerprint: machine, runningOnly }) => {
    if (!tried.has(machine) && runningOnly) throw new ServiceError('rate_limited', 'too many trials')
    const created = !tried.has(machine)
    tried.add(machine)
    return { grant: { activationId: 'act_1', licenceId: 'lic_1', token: 't' }, licenceKey: good, created }
  }
  return api.post(`/v1/apps/${appId}/trials`, {
    key: null,
    headers: { 'x-forwarded-for': address },
    body: { plan_code: 'pro', fingerprint, host: 'h', product_version: '1' },
  })
}

test('an address that sends a thousand fingerprints gets its daily trials, and other addresses still get theirs', async () => {
  await using gateway = await startGateway({ trialsPerAddress: 100 })
  const tried = new Set<string>()
  const start = (address: string, fingerprint: string) => startTrial(gateway, address, fingerprint, tried)
  const answers = []
  for (let batch = 0; batch < 25; batch += 1) {
    const fingerprints = Array.from({ length: 40 }, (_, n) => `m${batch}-${n}`)
    answers.push(...(await Promise.all(fingerprints.map((one) => start('203.0.113.7', one)))))
  }
  expect(answers.filter(({ status }) => status === 201)).toHaveLength(100)
  const refused = answers.filter(({ status }) => status === 429)
  expect(refused).toHaveLength(900)
  expect(tried.size).toBe(100)
  expect(refused[0]!.body).toMatchObject({ code: 'rate_limited' })
  expect(refused[0]!.headers.get('ratelimit-policy')).toBe('"trials";q=100;w=86400')
  expect(Number(refused[0]!.headers.get('retry-after'))).toBeGreaterThan(86_000)
  const [running] = tried
  expect((await start('203.0.113.7', running!)).status).toBe(200)
  expect((await activate(gateway, '203.0.113.7', good)).status).toBe(201)
  expect((await start('203.0.113.8', 'another')).status).toBe(201)
})

test('running and refused trials are not counted', async () => {
  await using gateway = await startGateway({ trialsPerAddress: 2 })
  const tried = new Set(['running'])
  const start = (fingerprint: string) => startTrial(gateway, '203.0.113.7', fingerprint, tried)
  for (let count = 0; count < 5; count++) expect((await start('running')).status).toBe(200)
  const code = { plan_code: 'pro', fingerprint: '', host: 'h', product_version: '1' }
  const headers = { 'x-forwarded-for': '203.0.113.7' }
  const path = `/v1/apps/${appId}/trials`
  for (let count = 0; count < 3; count++) {
    expect((await gateway.api.post(path, { key: null, headers, body: code })).status).toBe(422)
  }
  expect([(await start('a')).status, (await start('b')).status, (await start('c')).status]).toEqual([
    201, 201, 429,
  ])
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
    'trials',
    { trialsPerAddress: 1 },
    (gateway, address) => startTrial(gateway, address, `machine of ${address}`, new Set()),
  ],
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
