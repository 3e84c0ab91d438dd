import { fullTest } from '@licensing/test-support/drawn'
import { ServiceError } from '@licensing/grpc/errors'
import { freeAddress } from '@licensing/test-support/free-address'
import { identityProviderSettings, startIdentityProvider } from '@licensing/test-support/identity-provider'
import { createHmac, randomBytes } from 'node:crypto'
import { SignJWT, UnsecuredJWT } from 'jose'
import { afterAll, beforeEach, expect, test, vi } from 'vitest'
import { Browser } from '../../test/browser.ts'
import { accountId, startGateway } from '../../test/gateway.ts'
import type { TestGateway } from '../../test/gateway.ts'
import { newKey, startHostileProvider } from '../../test/hostile-provider.ts'
import type { Behaviour } from '../../test/hostile-provider.ts'

const provider = await startHostileProvider()
const sessionKey = randomBytes(32).toString('base64url')
const settings = {
  issuer: provider.issuer,
  clientId: 'client',
  clientSecret: 'secret & more',
  name: 'Acme <ID>',
}
const gateway = await startGateway({ sessionKey, identityProvider: settings })
afterAll(async () => {
  await gateway[Symbol.asyncDispose]()
  await provider.end()
})

interface Member {
  id: string
  email: string
  subject?: string
  accountName?: string
}

let members: Member[]
const used = new Set<string>()
answerAsCatalog(gateway)

/** A catalog of a few members. The rules themselves are tested with the real one (services/catalog/src/members). */
function answerAsCatalog({ answers: { catalog } }: TestGateway): void {
  catalog.useSignInState = async ({ stateHash }) => {
    const state = Buffer.from(stateHash).toString('hex')
    if (used.has(state)) throw new ServiceError('bad_request', 'this sign-in was completed before')
    used.add(state)
    return {}
  }
  catalog.findMembersOfPerson = async ({ person }) => ({
    members: members
      .filter((member) =>
        member.subject === undefined
          ? member.email === person?.verifiedEmail
          : member.subject === person?.subject,
      )
      .map(({ id, accountName = 'Acme' }) => ({ memberId: id, accountName })),
  })
  catalog.signIn = async ({ memberId, person }) => {
    const member = members.find(({ id }) => id === memberId)
    if (!member || member.email !== person?.verifiedEmail) throw new ServiceError('unauthenticated', 'no')
    member.subject = person.subject
    return { id: memberId, email: member.email, role: 'viewer', name: person.name }
  }
  catalog.authenticateMember = async ({ memberId }) => ({
    actorId: memberId,
    accountId,
    scopes: ['read'],
    role: 'viewer',
  })
  catalog.getMember = async ({ memberId }) => ({
    id: memberId,
    email: members.find(({ id }) => id === memberId)?.email ?? '',
    role: 'viewer',
  })
}

const ids = ['usr_01k9zj3v8qe5ktw2m4x6r7n8aa', 'usr_01k9zj3v8qe5ktw2m4x6r7n8ab'] as const
let browser: Browser

beforeEach(() => {
  members = [{ id: ids[0], email: 'ann@example.com' }]
  browser = new Browser()
  provider.behave({})
})

const at = (path: string, of = gateway) => `${of.url}${path}`

/** Starts a sign-in. @returns the parameters at the provider */
async function begin(path = '/portal/sign-in', by = browser): Promise<URLSearchParams> {
  const { status, next } = await by.open(at(path))
  expect(status).toBe(303)
  provider.expect(next!.searchParams.get('nonce')!)
  return next!.searchParams
}

const comeBack = (parameters: Record<string, string>, by = browser) =>
  by.open(at(`/portal/signed-in?${new URLSearchParams(parameters).toString()}`))

async function signIn(path?: string, by = browser) {
  const state = (await begin(path, by)).get('state')!
  return comeBack({ code: 'code', state }, by)
}

const self = async (by = browser) => {
  const { status, text } = await by.open(at('/v1/api-keys/self'), undefined, { 'x-requested-with': 'portal' })
  return status === 200 ? (JSON.parse(text) as { id: string }).id : status
}

async function expectFailure(answer: { status: number; text: string }, status = 400): Promise<void> {
  expect(answer.status, answer.text).toBe(status)
  expect(answer.text).toContain('<button>Sign in with Acme &lt;ID&gt;</button>')
  expect(await self()).toBe(401)
}

test('a sign-in goes to the provider with PKCE, state and nonce, and comes back to the page that was asked for', async () => {
  const asked = await begin('/portal/sign-in?return_to=%2Fportal%2Flicences%3Fq%3Dann%23x')
  expect(Object.fromEntries(asked)).toMatchObject({
    client_id: 'client',
    response_type: 'code',
    scope: 'openid email profile',
    redirect_uri: at('/portal/signed-in'),
    code_challenge_method: 'S256',
    code_challenge: expect.stringMatching(/^[\w-]{43}$/),
    nonce: expect.stringMatching(/^[\w-]{43}$/),
  })
  const answer = await comeBack({ code: 'code', state: asked.get('state')! })
  expect(answer.status).toBe(303)
  expect(answer.next?.href).toBe(at('/portal/licences?q=ann#x'))
  const cookie = answer.headers.getSetCookie().find((line) => line.startsWith('portal_session='))
  expect(cookie).toMatch(/; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/)
  expect(await self()).toBe(ids[0])
  const sent = provider.exchanged.at(-1)!
  expect(sent.get('redirect_uri')).toBe(at('/portal/signed-in'))
  expect(sent.get('code_verifier')).toMatch(/^[\w-]{43}$/)
  // The state, which the browser and the provider see, shows none of the secrets.
  expect(Buffer.from(asked.get('state')!, 'base64url').toString('latin1')).not.toContain(
    sent.get('code_verifier')!,
  )
})

test.each([
  '/v1/account',
  '//evil.example/portal',
  'https://evil.example/portal',
  '/\\evil.example/portal',
  '/portal/../v1/account',
  '/portal/%2e%2e/docs',
  '/portals',
  'portal',
  'javascript:alert(1)',
  `/portal/${'x'.repeat(2_000)}`,
])('return_to %s is ignored', async (path) => {
  const answer = await signIn(`/portal/sign-in?return_to=${encodeURIComponent(path)}`)
  expect(answer.next?.href).toBe(at('/portal'))
})

test('a state works once, in the browser that started, within 10 minutes', async () => {
  const state = (await begin()).get('state')!
  const otherBrowser = new Browser()
  await begin('/portal/sign-in', otherBrowser)
  await expectFailure(await comeBack({ code: 'code', state }, otherBrowser))
  await expectFailure(await comeBack({ code: 'code', state }, new Browser()))
  const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 600_000)
  try {
    await expectFailure(await comeBack({ code: 'code', state }))
  } finally {
    clock.mockRestore()
  }
  const other = (await begin()).get('state')!
  const attempts = await Promise.all(
    Array.from({ length: 8 }, () => comeBack({ code: 'code', state: other })),
  )
  // The nonce is that of the latest sign-in.
  expect(attempts.filter(({ status }) => status === 303)).toHaveLength(1)
  expect(attempts.filter(({ status }) => status === 400)).toHaveLength(7)
  expect((await comeBack({ code: 'code', state: other })).status).toBe(400)
})

test('several sign-ins that were started in one browser each work', async () => {
  const first = await begin()
  const second = await begin()
  expect((await comeBack({ code: 'code', state: second.get('state')! })).status).toBe(303)
  provider.expect(first.get('nonce')!)
  expect((await comeBack({ code: 'code', state: first.get('state')! })).status).toBe(303)
})

test('a missing, wrong, changed or doubled state and a session in its place are refused', async () => {
  const state = (await begin()).get('state')!
  const changed = Buffer.from(state, 'base64url')
  changed[40]! ^= 1
  for (const query of [
    '',
    '?code=x',
    '?code=x&state=',
    '?code=x&state=nonsense',
    `?code=x&state=${state}&state=${state}`,
    `?code=x&state=${changed.toString('base64url')}`,
  ])
    await expectFailure(await browser.open(at(`/portal/signed-in${query}`)))
  const ended = await signIn()
  const session = ended.headers.getSetCookie()[0]!.split(/[=;]/)[1]!
  expect((await comeBack({ code: 'x', state: session })).status).toBe(400)
})

test('an error from the provider, a refused code and a wrong iss parameter are refused', async () => {
  const state = async () => (await begin()).get('state')!
  const denied = await comeBack({
    error: 'access_denied',
    error_description: '<b>no</b>',
    state: await state(),
  })
  await expectFailure(denied)
  expect(denied.text).not.toContain('<b>no')
  await expectFailure(await comeBack({ state: await state() }))
  await expectFailure(await comeBack({ code: 'x', state: await state(), iss: 'https://evil.example' }))
  provider.behave({ answers: { token: { status: 400, body: '{"error":"invalid_grant"}' } } })
  await expectFailure(await signIn())
})

const now = () => Math.floor(Date.now() / 1000)
const other = newKey()
const base64 = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
const hugeText = 'x'.repeat(3 * 1024 ** 2)

const wrong: Record<string, Behaviour> = {
  'a wrong issuer': { claims: { iss: 'https://evil.example' } },
  'a wrong audience': { claims: { aud: 'other' } },
  'several audiences without this client as azp': { claims: { aud: ['client', 'other'], azp: 'other' } },
  'a wrong nonce': { claims: { nonce: 'other' } },
  'no nonce': { claims: { nonce: undefined } },
  'no sub': { claims: { sub: undefined } },
  'an empty sub': { claims: { sub: '' } },
  'a sub that is a number': { claims: { sub: 7 } },
  'a sub that is too long': { claims: { sub: 'x'.repeat(256) } },
  'a sub with NUL': { claims: { sub: 'a\0' } },
  'no exp': { claims: { exp: undefined } },
  'an expired token': { claims: { exp: now() - 120, iat: now() - 500 } },
  'a token that is not valid yet': { claims: { nbf: now() + 300 } },
  'the signature of another key': {
    sign: (claims) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'one' }).sign(other.privateKey),
  },
  'a key that is not listed': {
    sign: (claims) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid: 'two' }).sign(other.privateKey),
  },
  'the alg none': { sign: (claims) => new UnsecuredJWT(claims).encode() },
  'the alg none, which its document lists': {
    document: { id_token_signing_alg_values_supported: ['RS256', 'none'] },
    sign: (claims) => new UnsecuredJWT(claims).encode(),
  },
  'the alg HS256 with the public key as the secret': {
    document: { id_token_signing_alg_values_supported: ['RS256', 'HS256'] },
    sign: (claims) => {
      const signed = `${base64({ alg: 'HS256', kid: 'one' })}.${base64(claims)}`
      const secret = provider.publicKey.export({ type: 'spki', format: 'pem' })
      return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
    },
  },
  'the alg HS256 with the client’s secret': {
    sign: (claims) =>
      new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(Buffer.from(settings.clientSecret)),
  },
  'no signature': { sign: (claims) => `${base64({ alg: 'RS256', kid: 'one' })}.${base64(claims)}.` },
  'no ID token': { answers: { token: { body: '{"access_token":"x","token_type":"Bearer"}' } } },
  'a token answer that is not JSON': { answers: { token: { body: '<html>' } } },
  'a token answer of 3 MiB': { answers: { token: { body: hugeText } } },
  'keys of 3 MiB': { answers: { keys: { body: hugeText } } },
  'a userinfo answer of 3 MiB': {
    claims: { email: undefined },
    answers: { userinfo: { body: JSON.stringify({ sub: 'ann', x: hugeText }) } },
  },
  'the userinfo of another person': { claims: { email: undefined }, userInfo: { sub: 'bob' } },
}

test.each(Object.entries(wrong))(
  '%s is a page with status 400 and the button again',
  async (_title, behaviour) => {
    provider.behave(behaviour)
    await expectFailure(await signIn())
    provider.behave({})
    expect((await signIn()).status).toBe(303)
  },
)

const unverified: Record<string, Behaviour> = {
  'an unverified address': { claims: { email_verified: false } },
  'an address that only userinfo calls verified, against the ID token': {
    claims: { email_verified: false },
    userInfo: { email_verified: true },
  },
  'an address of which nothing is said': {
    claims: { email_verified: undefined },
    userInfo: { email_verified: undefined },
  },
  'an address that a text calls verified': { claims: { email_verified: 'true' } },
  'an address that is no text': { claims: { email: ['ann@example.com'] } },
  'no address': { claims: { email: undefined }, userInfo: { email: undefined } },
  'an address whose domain’s owner has not verified it': {
    claims: { email_verified: undefined, xms_edov: false },
  },
}

test.each(Object.entries(unverified))(
  '%s is refused with 403, and the page says what to do',
  async (_title, behaviour) => {
    provider.behave(behaviour)
    const answer = await signIn()
    await expectFailure(answer, 403)
    expect(answer.text).toMatch(/has not said that your e-mail address is verified/)
  },
)

test.each([
  ['in the ID token', {}],
  ['in userinfo', { claims: { email: undefined, email_verified: undefined, name: undefined } }],
  ['in userinfo, while the ID token says nothing of it', { claims: { email_verified: undefined } }],
  ['by the owner of its domain, as Entra says', { claims: { email_verified: undefined, xms_edov: true } }],
] satisfies [string, Behaviour][])(
  'an address that is verified %s is accepted',
  async (_title, behaviour) => {
    provider.behave(behaviour)
    expect((await signIn()).status).toBe(303)
    expect(await self()).toBe(ids[0])
  },
)

test('a person who is no member, and another sub with the address of a bound member, get a page that says whom to ask', async () => {
  provider.behave({ claims: { email: 'eve@example.com' } })
  const answer = await signIn()
  await expectFailure(answer, 403)
  expect(answer.text).toContain('Ask an owner')
  expect(answer.text).toContain('eve@example.com')
  expect(answer.text).not.toMatch(/acct_|usr_|Acme Studio/)

  provider.behave({})
  expect((await signIn()).status).toBe(303)
  browser = new Browser()
  provider.behave({ claims: { sub: 'mallory' } })
  await expectFailure(await signIn(), 403)
})

test('a person of several accounts chooses one, which alone is bound', async () => {
  members = [
    { id: ids[0], email: 'ann@example.com', accountName: 'Zoo & <Co>' },
    { id: ids[1], email: 'ann@example.com', accountName: 'Acme' },
  ]
  const page = await signIn('/portal/sign-in?return_to=/portal/plans')
  expect(page.status).toBe(200)
  expect(page.text).toContain('<h1>Choose an account</h1>')
  expect(page.text).toContain('Zoo &amp; &lt;Co&gt;')
  expect(page.headers.getSetCookie()).toEqual([])
  const choice = /name="choice" value="([\w-]+)"/.exec(page.text)![1]!
  const choose = (form: Record<string, string>, headers = {}, by = browser) =>
    by.open(at('/portal/choose-account'), form, headers)

  expect((await choose({ choice, member: ids[1] }, { origin: 'https://evil.example' })).status).toBe(400)
  expect((await choose({ choice, member: ids[1] }, {}, new Browser())).status).toBe(400)
  expect((await choose({ choice: 'x', member: ids[1] })).status).toBe(400)
  expect((await choose({ choice })).status).toBe(403)
  expect((await choose({ choice, member: 'usr_01k9zj3v8qe5ktw2m4x6r7n8zz' })).status).toBe(403)
  expect(await self()).toBe(401)
  const chosen = await choose({ choice, member: ids[1] })
  expect(chosen.next?.href).toBe(at('/portal/plans'))
  expect(await self()).toBe(ids[1])
  expect(members.map(({ subject }) => subject)).toEqual([undefined, 'ann'])
})

const unavailable: Record<string, Behaviour> = {
  'whose document names another issuer': { document: { issuer: 'https://evil.example' } },
  'whose document is not JSON': { answers: { document: { body: '<html>' } } },
  'whose document is missing': { answers: { document: { status: 404, body: '{}' } } },
  'whose document has 3 MiB': { answers: { document: { body: JSON.stringify({ x: hugeText }) } } },
}

test.each(Object.entries(unavailable))(
  'a provider %s is a page with status 503',
  async (_title, behaviour) => {
    const state = (await begin()).get('state')!
    provider.behave(behaviour)
    await expectFailure(await browser.open(at('/portal/sign-in')), 503)
    await expectFailure(await comeBack({ code: 'x', state }), 503)
  },
)

fullTest(
  'a provider that is slow is waited for, one that does not answer for 10 seconds or at all is a page with status 503',
  async () => {
    const slow = startHostileProvider()
    const away = await startGateway({
      sessionKey,
      identityProvider: { ...settings, issuer: `http://${await freeAddress()}` },
    })
    await expectFailure(await browser.open(at('/portal/sign-in', away)), 503)
    await away[Symbol.asyncDispose]()
    await (await slow).end()

    provider.behave({ delays: { document: 500, token: 500 } })
    expect((await signIn()).status).toBe(303)
    browser = new Browser()
    const state = (await begin()).get('state')!
    provider.behave({ delays: { token: 30_000 } })
    const startedMs = performance.now()
    await expectFailure(await comeBack({ code: 'x', state }), 503)
    expect(performance.now() - startedMs).toBeLessThan(11_500)
  },
  20_000,
)

test('the clock of the provider may differ by some seconds', async () => {
  for (const seconds of [-20, 20]) {
    const time = now() + seconds
    provider.behave({ claims: { iat: time, nbf: time, exp: time + 300 } })
    expect((await signIn()).status).toBe(303)
  }
  provider.behave({ claims: { iat: now() - 310, exp: now() - 10 } })
  expect((await signIn()).status).toBe(303)
})

test('pages cannot be framed, load nothing and are not stored', async () => {
  const { headers } = await browser.open(at('/portal/signed-in'))
  expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*frame-ancestors 'none'/)
  expect(headers.get('cache-control')).toBe('no-store')
  expect(headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect((await fetch(at('/portal/signed-in'), { method: 'HEAD' })).status).not.toBe(200)
})

test('without a provider both addresses are 404, and the portal does not offer the sign-in', async () => {
  await using plain = await startGateway({ sessionKey })
  for (const path of [
    '/portal/sign-in',
    '/portal/sign-in?return_to=/portal',
    '/portal/signed-in',
    '/portal/choose-account',
  ])
    expect((await plain.api.get(path, { key: null })).status, path).toBe(404)
  expect((await plain.api.get('/portal/sign-in-options', { key: null })).body).toEqual({ name: null })
  expect((await gateway.api.get('/portal/sign-in-options', { key: null })).body).toEqual({
    name: 'Acme <ID>',
  })
})

test('a person signs in at a certified provider, which runs as a process', async () => {
  const address = await freeAddress()
  const {
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: clientId,
    OIDC_CLIENT_SECRET: clientSecret,
  } = identityProviderSettings(address)
  const identityProvider = { issuer, clientId, clientSecret, name: 'Try' }
  await using honest = await startGateway({ sessionKey, identityProvider })
  answerAsCatalog(honest)
  await using _provider = await startIdentityProvider(address, honest.url)
  const form = await browser.follow(`${honest.url}/portal/sign-in?return_to=/portal/plans`, () => false)
  expect(form.text).toContain('Simulated identity provider')
  const { next } = await browser.open(form.url, { email: 'ann@example.com', name: 'Ann Example' })
  const done = await browser.follow(next!, ({ pathname }) => pathname === '/portal/plans')
  expect(done.next?.pathname).toBe('/portal/plans')
  const { text } = await browser.open(`${honest.url}/v1/api-keys/self`, undefined, {
    'x-requested-with': 'portal',
  })
  expect(JSON.parse(text)).toMatchObject({ id: ids[0], email: 'ann@example.com', role: 'viewer' })
})
