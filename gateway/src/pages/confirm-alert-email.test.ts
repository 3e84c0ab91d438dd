import { ServiceError } from '@licensing/grpc/errors'
import { hash } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { accountId, gatewayOfFile } from '../../test/gateway.ts'

const path = '/confirm-alert-email'
const token = 'T'.repeat(43)
const alertEmail = '<b>ops</b>&"@vendor.example'

let confirmed: Uint8Array[]
const gateway = await gatewayOfFile()
beforeEach(() => {
  confirmed = []
  const { catalog } = gateway.answers
  const expectKnown = (tokenHash: Uint8Array) => {
    if (hash('sha256', token) === Buffer.from(tokenHash).toString('hex')) return
    throw new ServiceError('not_found', 'this link is not valid: it was used')
  }
  catalog.findAlertEmailConfirmation = async ({ tokenHash }) => {
    expectKnown(tokenHash)
    return { accountId, alertEmail }
  }
  catalog.confirmAlertEmail = async ({ tokenHash }) => {
    expectKnown(tokenHash)
    if (confirmed.length > 0) throw new ServiceError('not_found', 'this link is not valid: it was used')
    confirmed.push(tokenHash)
    return { accountId, alertEmail }
  }
})

// As browsers send it.
const accept = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
const look = (query: string, init: RequestInit = { headers: { accept } }) =>
  fetch(`${gateway.url}${path}${query}`, init)
const click = (form: Record<string, string>, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, { method: 'POST', body: new URLSearchParams(form), headers })

test('requests for the page, such as those of a mail scanner, confirm nothing', async () => {
  const requests = [{ headers: { accept } }, { method: 'HEAD' }, { method: 'HEAD', headers: { accept } }]
  for (const request of requests) expect((await look(`?token=${token}`, request)).status).toBe(200)
  expect(confirmed).toEqual([])
})

test('a script that follows the link confirms, once', async () => {
  const done = await look(`?token=${token}`, {})
  expect(done.status).toBe(200)
  expect(await done.text()).toContain('Confirmed')
  expect(Buffer.from(confirmed[0]!).toString('hex')).toBe(hash('sha256', token))
  expect((await look(`?token=${token}`, {})).status).toBe(400)
  expect((await look('?token=short', {})).status).toBe(400)
  expect(confirmed).toHaveLength(1)
})

test('the page works without a script, loads nothing, is not cached, and shows the address as text', async () => {
  const page = await look(`?token=${token}`)
  const html = await page.text()
  expect(html).not.toContain('<script')
  expect(html).toContain('&lt;b&gt;ops&lt;/b&gt;&amp;&quot;@vendor.example')
  expect(html).toContain(accountId)
  expect(html).toContain(`<form method="post" action="${path}">`)
  expect(html).toContain(`<input type="hidden" name="token" value="${token}">`)
  expect(html).toContain('<button>Confirm</button>')
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("form-action 'self'")
  expect(policy).toContain("frame-ancestors 'none'")
  expect(policy).not.toContain('unsafe')
  expect(page.headers.get('cache-control')).toBe('no-store')
  expect(page.headers.get('referrer-policy')).toBe('same-origin')
})

test('the button confirms once, without a login, and the gateway passes on only the hash of the token', async () => {
  const done = await click({ token })
  expect(done.status).toBe(200)
  expect(await done.text()).toContain('Confirmed')
  expect(Buffer.from(confirmed[0]!).toString('hex')).toBe(hash('sha256', token))
  const again = await click({ token })
  expect(again.status).toBe(400)
  const html = await again.text()
  expect(html).toContain('This link is not valid: it was used.')
  expect(html).toContain('set the address again in the portal')
  expect(confirmed).toHaveLength(1)
})

const twice = `?token=${token}&token=${token}`

test.each(['', '?token=', '?token=short', `?token=${token}x`, twice, '?token=%3Cscript%3E'])(
  'an incomplete link is refused: %j',
  async (query) => {
    const before = gateway.calls.length
    const answer = await look(query)
    expect(answer.status).toBe(400)
    const html = await answer.text()
    expect(html).toContain('copy all of it from the mail')
    expect(html).not.toContain('<script')
    expect(gateway.calls.slice(before)).toEqual([])
  },
)

test('a form without a token, or with another one, confirms nothing', async () => {
  for (const form of [{}, { token: '' }, { token: 'U'.repeat(43) }]) {
    expect((await click(form)).status).toBe(400)
  }
  expect(confirmed).toEqual([])
})

test('when catalog is unavailable the page says to try again', async () => {
  gateway.answers.catalog.findAlertEmailConfirmation = async () => {
    throw new ServiceError('unavailable', 'catalog is unavailable')
  }
  const answer = await look(`?token=${token}`)
  expect(answer.status).toBe(503)
  expect(await answer.text()).toContain('Catalog is unavailable.')
})
