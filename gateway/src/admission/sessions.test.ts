import { eventually } from '@licensing/test-support/poll'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { expect, test } from 'vitest'
import { accountId, gatewayOfFile, hashOf, startGateway } from '../../test/gateway.ts'
import type { TestGateway } from '../../test/gateway.ts'
import { encrypt, parseSessionKeys, sessionSeconds } from './session-encryption.ts'

const sessionKey = randomBytes(32).toString('base64url')
const publicUrl = 'https://licensing.example.com'
const gateway = await gatewayOfFile({ sessionKey, publicUrl })
answerAccount(gateway)

function answerAccount({ answers }: TestGateway): void {
  answers.catalog.getAccount = async ({ accountId: id }) => ({ id, name: 'Acme' })
}

interface Sent {
  at?: TestGateway
  headers?: Record<string, string>
}

const signIn = (key: unknown, { at = gateway, headers = {} }: Sent = {}) =>
  at.api.post<{ code: string; detail: string }>('/portal/session', { key: null, headers, body: { key } })

function setCookie(answer: { headers: Headers }): { pair: string; value: string; attributes: string[] } {
  const [pair = '', ...attributes] = (answer.headers.get('set-cookie') ?? '').split('; ')
  return { pair, value: pair.slice(pair.indexOf('=') + 1), attributes: attributes.toSorted() }
}

async function givenSession(key = gateway.apiKey, sent: Sent = {}): Promise<string> {
  const answer = await signIn(key, sent)
  expect(answer.status).toBe(204)
  return setCookie(answer).pair
}

const portal = { 'x-requested-with': 'portal' }
const account = async (cookie: string, { at = gateway, headers = portal }: Sent = {}) => {
  const answer = await at.api.get<{ code?: string }>('/v1/account', {
    key: null,
    headers: { ...headers, cookie },
  })
  return answer.body.code ?? answer.status
}

test('signing in answers 204 with a cookie that scripts and other sites cannot reach, for 12 hours', async () => {
  const answer = await signIn(gateway.apiKey)
  expect(answer.status).toBe(204)
  expect(answer.headers.get('cache-control')).toBe('no-store')
  expect(answer.headers.get('ratelimit-policy')).toMatch(/^"key"/)
  const { pair, attributes } = setCookie(answer)
  expect(pair).toMatch(/^portal_session=[\w-]{90,}$/)
  expect(attributes).toEqual(['HttpOnly', 'Max-Age=43200', 'Path=/', 'SameSite=Strict'])
  expect(await account(pair)).toBe(200)
})

test.each([
  ['a proxy says that it is https', { 'x-forwarded-proto': 'https' }],
  ['the host is that of an https PUBLIC_URL', { host: 'licensing.example.com' }],
])('if %s, the cookie is Secure and bound to the host', async (_title, headers) => {
  const { pair, attributes } = setCookie(await rawSignIn(headers))
  expect(pair).toMatch(/^__Host-portal_session=/)
  expect(attributes).toContain('Secure')
  const over = { headers: { ...portal, ...headers } }
  expect(await rawAccount({ ...over.headers, cookie: pair })).toBe(200)
  // A cookie that a page on another subdomain could have set.
  expect(await rawAccount({ ...over.headers, cookie: pair.replace('__Host-', '') })).toBe(401)
})

test('a session has the scopes of its key, and is ignored without the header', async () => {
  const cookie = await givenSession(gateway.keyWith(['read']))
  expect(await account(cookie)).toBe('insufficient_scope')
  const admin = await givenSession(gateway.keyWith(['admin']))
  expect(await account(admin)).toBe(200)
  for (const headers of [{}, { 'x-requested-with': 'XMLHttpRequest' }]) {
    expect(await account(admin, { headers })).toBe('unauthenticated')
  }
  expect(await account(`theme=dark; ${admin}; other=1`)).toBe(200)
})

test('Authorization has precedence over the session, even with a wrong key', async () => {
  const cookie = await givenSession(gateway.keyWith(['read']))
  const authorized = (authorization: string) => account(cookie, { headers: { ...portal, authorization } })
  expect(await authorized(`Bearer ${gateway.apiKey}`)).toBe(200)
  expect(await authorized(`Bearer lsk_${'0'.repeat(50)}`)).toBe('unauthenticated')
  expect(await authorized('Basic x')).toBe('unauthenticated')
})

test('a session that has expired or was encrypted with another key is refused', async () => {
  const [name] = (await givenSession()).split('=')
  const keyHash = Buffer.from(hashOf(gateway.apiKey), 'hex').toString('base64')
  const sealed = (key: string, secondsAgo: number) =>
    `${name}=${encrypt(keyHash, 'session', Date.now() + (sessionSeconds - secondsAgo) * 1000, parseSessionKeys(key))}`
  expect(await account(sealed(sessionKey, sessionSeconds - 60))).toBe(200)
  expect(await account(sealed(sessionKey, sessionSeconds))).toBe('unauthenticated')
  expect(await account(sealed(randomBytes(32).toString('base64url'), 0))).toBe('unauthenticated')
})

test('a session works on every replica that has the key', async () => {
  await using replica = await startGateway({ sessionKey })
  answerAccount(replica)
  const cookie = await givenSession()
  expect(await account(cookie, { at: replica })).toBe('unauthenticated')
  replica.keys.set(hashOf(gateway.apiKey), { actorId: 'key_1', accountId, scopes: ['admin'] })
  await eventually(async () => expect(await account(cookie, { at: replica })).toBe(200))
})

test('a session is refused within 2 seconds after its API key was revoked', async () => {
  const key = gateway.keyWith(['admin'])
  const cookie = await givenSession(key)
  expect(await account(cookie)).toBe(200)
  gateway.keys.delete(hashOf(key))
  await eventually(async () => expect(await account(cookie)).toBe('unauthenticated'), { timeoutMs: 2_000 })
})

test('signing out clears the cookie, whatever it contains', async () => {
  for (const cookie of [await givenSession(), 'portal_session=nonsense', 'theme=dark']) {
    const answer = await gateway.api.delete('/portal/session', { key: null, headers: { ...portal, cookie } })
    expect(answer.status).toBe(204)
    const { pair, attributes } = setCookie(answer)
    expect(pair).toBe('portal_session=')
    expect(attributes).toEqual(['HttpOnly', 'Max-Age=0', 'Path=/', 'SameSite=Strict'])
  }
})

const host = 'portal.example.net'
const http = `http://${host}`

test.each<[origin: string | undefined, own: boolean, extra?: Record<string, string>]>([
  [undefined, true],
  [http, true],
  // A proxy that terminates TLS and keeps the host.
  [`https://${host}`, true],
  [publicUrl, true],
  ['http://licensing.example.com', false],
  ['null', false],
  ['', false],
  [`${http}:8080`, false],
  [`http://x.${host}`, false],
  [`${http}.evil.example`, false],
  [`http://evil.example@${host}`, false],
  [`${http}/`, false],
  [`${http}, https://evil.example`, false],
  [`ftp://${host}`, false],
  [http, false, { 'x-forwarded-proto': 'https' }],
  [`${http}:80`, false],
])('a session used from %j is its own: %j', async (origin, own, extra = {}) => {
  const headers = { host, ...extra, ...(origin !== undefined && { origin }) }
  const cookie = setCookie(await rawSignIn({ host, ...extra })).pair
  const authorization = `Bearer ${gateway.apiKey}`
  const answers = [
    await raw('GET', '/v1/account', { ...portal, ...headers, cookie }),
    await rawSignIn(headers),
    await raw('DELETE', '/portal/session', headers),
    // A request with a key may come from any origin.
    await raw('GET', '/v1/account', { ...headers, cookie, authorization }),
  ]
  expect(answers.map(({ status }) => status)).toEqual(own ? [200, 204, 204, 200] : [403, 403, 403, 200])
  for (const refused of answers.filter(({ status }) => status === 403)) {
    expect(await refused.json()).toMatchObject({ code: 'origin_refused' })
  }
})

test('a wrong key gets 401, an invalid field 422, and a body that is not JSON 400 or 415', async () => {
  for (const key of [`lsk_${'0'.repeat(50)}`, 'lsk_', '', `${gateway.apiKey}\n`, 'x'.repeat(10_000)]) {
    const answer = await signIn(key)
    expect(answer.status).toBe(401)
    expect(answer.body).toMatchObject({ code: 'unauthenticated' })
    expect(answer.headers.get('set-cookie')).toBeNull()
  }
  for (const [body, pointer] of [
    [{ key: 7 }, '/key'],
    [{}, '/key'],
    [{ key: gateway.apiKey, remember: true }, '/remember'],
  ] as const) {
    const answer = await gateway.api.post('/portal/session', { key: null, body })
    expect(answer.body).toMatchObject({ status: 422, errors: [{ pointer }] })
  }
  const json = { 'content-type': 'application/json' }
  expect((await raw('POST', '/portal/session', json, '{"key":')).status).toBe(400)
  expect((await raw('POST', '/portal/session', json)).status).toBe(400)
  expect((await raw('POST', '/portal/session', { 'content-type': 'text/plain' }, '{}')).status).toBe(415)
  const other = await gateway.api.get('/portal/session', { key: null })
  expect(other.status).toBe(405)
  expect(other.headers.get('allow')).toBe('POST, DELETE, OPTIONS')
})

test('sign-ins are rate limited: those with a wrong key by address, others by their key', async () => {
  await using limited = await startGateway({ perKey: 2 })
  answerAccount(limited)
  const wrong = `lsk_${'0'.repeat(50)}`
  expect((await signIn(wrong, { at: limited })).status).toBe(401)
  expect((await limited.api.get('/v1/account', { key: wrong })).status).toBe(401)
  const refused = await signIn(wrong, { at: limited })
  expect(refused.status).toBe(429)
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  // Another address is not affected, nor is one with a valid key.
  const headers = { 'x-forwarded-for': '203.0.113.9' }
  expect((await signIn(wrong, { at: limited, headers })).status).toBe(401)
  const cookie = await givenSession(limited.apiKey, { at: limited })
  expect(await account(cookie, { at: limited })).toBe(200)
  expect(await account(cookie, { at: limited })).toBe('rate_limited')
})

test('without PORTAL_SESSION_KEY the API works, sign-in names the missing variable, and cookies are ignored', async () => {
  const cookie = await givenSession()
  await using plain = await startGateway({ sessionKey: null })
  answerAccount(plain)
  plain.keys.set(hashOf(gateway.apiKey), { actorId: 'key_1', accountId, scopes: ['admin'] })
  expect((await plain.api.get('/v1/account')).status).toBe(200)
  const answer = await signIn(plain.apiKey, { at: plain })
  expect(answer.status).toBe(503)
  expect(answer.body.detail).toContain('PORTAL_SESSION_KEY')
  expect(await account(cookie, { at: plain })).toBe('unauthenticated')
})

test('while the catalog is unavailable signing in is 503', async () => {
  await using alone = await startGateway()
  await alone.endCatalog()
  expect((await signIn(alone.apiKey, { at: alone })).status).toBe(503)
})

/** Sends any header; `fetch` would not send `Host`. */
async function raw(
  method: string,
  path: string,
  headers: Record<string, string>,
  body = '',
): Promise<Response> {
  const sent = request({
    port: gateway.port,
    method,
    path,
    headers: { 'content-length': Buffer.byteLength(body), ...headers },
  })
  const [answer] = (await once(sent.end(body), 'response')) as [IncomingMessage]
  const received = await buffer(answer)
  const names = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
    values.map((value): [string, string] => [name, value]),
  )
  return new Response(answer.statusCode === 204 ? null : received, {
    status: answer.statusCode!,
    headers: names,
  })
}

function rawSignIn(headers: Record<string, string>): Promise<Response> {
  const json = { 'content-type': 'application/json' }
  return raw('POST', '/portal/session', { ...json, ...headers }, JSON.stringify({ key: gateway.apiKey }))
}

async function rawAccount(headers: Record<string, string>): Promise<number> {
  return (await raw('GET', '/v1/account', headers)).status
}
