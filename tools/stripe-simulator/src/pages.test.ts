import { afterAll, beforeAll, expect, test } from 'vitest'
import { asVendor, chargesOf, givenSession, startWorld } from '../test/support.ts'
import type { World } from '../test/support.ts'

let world: World
beforeAll(async () => void (world = await startWorld()))
afterAll(() => world[Symbol.asyncDispose]())

async function read(path: string): Promise<string> {
  const response = await fetch(new URL(path, world.simulator.url))
  expect(response.status).toBe(200)
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'")
  return response.text()
}

/** Sends a form as a browser without scripts does, and returns the answer, without following a redirect. */
async function submit(path: string, fields: Record<string, string>, headers = {}): Promise<Response> {
  return fetch(new URL(path, world.simulator.url), {
    method: 'POST',
    body: new URLSearchParams(fields),
    redirect: 'manual',
    headers,
  })
}

test('the checkout page says that no money moves, and paying redirects to the shop', async () => {
  const session = await givenSession(world)
  const page = await read(String(session.url))
  expect(page).toContain('Simulated – no money moves')
  expect(page).toContain('49.00 USD')
  expect(page).not.toContain('<script')
  const paid = await submit(`/pay/${session.id}`, { how: 'card', email: 'someone@example.com' })
  expect(paid.status).toBe(303)
  expect(paid.headers.get('location')).toBe(`http://127.0.0.1/thanks?session_id=${session.id}`)
  const now = await world.stripe.checkout.sessions.retrieve(session.id, {}, asVendor)
  expect(now).toMatchObject({ payment_status: 'paid', customer_details: { email: 'someone@example.com' } })
})

test('a payment form sent twice pays once', async () => {
  const { id } = await givenSession(world)
  await submit(`/pay/${id}`, { how: 'card' })
  const second = await submit(`/pay/${id}`, { how: 'card' })
  expect(second.headers.get('location')).toBe(`/pay/${id}`)
  expect(await read(`/pay/${id}`)).toContain('Back to the shop')
  const session = await world.stripe.checkout.sessions.retrieve(id, {}, asVendor)
  expect(await chargesOf(world, session.payment_intent)).toHaveLength(1)
})

test('after a declined card the page is shown again, with buttons to cancel or try again', async () => {
  const { id } = await givenSession(world)
  const declined = await submit(`/pay/${id}`, { how: 'declined' })
  const page = await read(String(declined.headers.get('location')))
  expect(page).toContain('The card was declined')
  expect(page).toContain('href="http://127.0.0.1/cancel"')
})

test('values of integrators are escaped', async () => {
  const attack = '"><img src=x onerror=alert(1)>'
  const { id } = await givenSession(world, { cancel_url: `http://127.0.0.1/${attack}` })
  const page = await read(`/pay/${id}`)
  expect(page).not.toContain(attack)
  expect(page).toContain('&quot;&gt;&lt;img src=x onerror=alert(1)&gt;')
})

test('requests from another site are refused', async () => {
  const { id } = await givenSession(world)
  const foreign = await submit(`/pay/${id}`, { how: 'card' }, { 'sec-fetch-site': 'cross-site' })
  expect(foreign.status).toBe(403)
  const session = await world.stripe.checkout.sessions.retrieve(id, {}, asVendor)
  expect(session.status).toBe('open')
})

const consentQuery = {
  response_type: 'code',
  client_id: 'ca_simLicensingPlatform',
  redirect_uri: 'http://127.0.0.1/back?a=b',
  state: 'state "1"',
  scope: 'read_write',
}

test('consent redirects with a code, which the official client exchanges once for the account', async () => {
  const page = await read(`/oauth/authorize?${new URLSearchParams(consentQuery).toString()}`)
  expect(page).toContain('value="state &quot;1&quot;"')
  const fields = { ...consentQuery, account: 'acct_simConsenting', consent: 'given' }
  const back = new URL((await submit('/oauth/authorize', fields)).headers.get('location') ?? '')
  expect(back.origin + back.pathname).toBe('http://127.0.0.1/back')
  expect(back.searchParams.get('state')).toBe('state "1"')
  const exchange = { grant_type: 'authorization_code' as const, code: back.searchParams.get('code') ?? '' }
  expect(await world.stripe.oauth.token(exchange)).toMatchObject({ stripe_user_id: 'acct_simConsenting' })
  await expect(world.stripe.oauth.token(exchange)).rejects.toMatchObject({ type: 'StripeInvalidGrantError' })
})

test('after a refusal the redirect has no code, and another client id or redirect URI is refused', async () => {
  const back = new URL(
    (await submit('/oauth/authorize', { ...consentQuery, consent: 'denied' })).headers.get('location') ?? '',
  )
  expect(back.searchParams.get('error')).toBe('access_denied')
  expect(back.searchParams.has('code')).toBe(false)
  const given = { ...consentQuery, account: 'acct_simA', consent: 'given' }
  for (const wrong of [
    { client_id: 'ca_other' },
    { redirect_uri: 'javascript:alert(1)' },
    { account: 'acct_missing' },
  ]) {
    expect((await submit('/oauth/authorize', { ...given, ...wrong })).status).toBe(400)
  }
})

test('consent connects a deauthorized account again', async () => {
  const account = 'acct_simBack'
  await world.simulator.control('deauthorize', { account })
  await expect(world.stripe.accounts.retrieve(account)).rejects.toMatchObject({ code: 'account_invalid' })
  await submit('/oauth/authorize', { ...consentQuery, account, consent: 'given' })
  expect(await world.stripe.accounts.retrieve(account)).toMatchObject({ id: account })
  await expect(world.stripe.accounts.retrieve('acct_missing1')).rejects.toMatchObject({ statusCode: 403 })
})
