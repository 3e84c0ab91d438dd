import { ServiceError } from '@licensing/grpc/errors'
import { beforeEach, expect, test } from 'vitest'
import { accountId, gatewayOfFile } from '../../test/gateway.ts'

const path = '/v1/processors/stripe/authorized'
const attack = '<script>alert(1)</script>"\'&'

/** The requests to billing, in order. */
let asked: { state?: string; browser: string; confirmation?: string }[]
const gateway = await gatewayOfFile()
beforeEach(() => {
  asked = []
  const { billing } = gateway.answers
  billing.receiveProcessorAuthorization = async ({ state, code, browser }) => {
    asked.push({ state, browser })
    if (state === 'down') throw new ServiceError('unavailable', 'the processor is unavailable')
    if (state !== 'good') throw new ServiceError('bad_request', `no ${attack}`)
    return { accountId, accountName: attack, connectedAccount: `acct_${code}`, confirmation: 'confirm-1' }
  }
  billing.confirmProcessorAuthorization = async ({ confirmation, browser }) => {
    asked.push({ confirmation, browser })
    if (confirmation === 'taken') throw new ServiceError('already_exists', 'acct_1 is connected elsewhere')
    return { accountId, accountName: 'Vendor', connectedAccount: 'acct_1' }
  }
})

const look = (query: Record<string, string>, method = 'GET') =>
  fetch(`${gateway.url}${path}?${new URLSearchParams(query).toString()}`, { method })

async function opened() {
  const page = await look({ state: 'good', code: '1' })
  return { html: await page.text(), cookie: page.headers.get('set-cookie')?.split(';')[0] ?? '' }
}

const click = (cookie: string, headers: Record<string, string> = {}, confirmation = 'confirm-1') =>
  fetch(`${gateway.url}${path}`, {
    method: 'POST',
    body: new URLSearchParams({ confirmation }),
    headers: { cookie, ...headers },
  })

test('the page shows the vendor account as text, loads nothing, and is not cached', async () => {
  const page = await look({ state: 'good', code: '1' })
  expect(page.status).toBe(200)
  const html = await page.text()
  expect(html).not.toContain('<script')
  expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;')
  expect(html).toContain(accountId)
  expect(html).toContain('acct_1')
  expect(html).toMatch(/<form method="post"[^>]*>[^]*<button>Connect<\/button>/)
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toContain("default-src 'none'")
  expect(policy).not.toContain('unsafe')
  expect(policy).toContain("frame-ancestors 'none'")
  expect(page.headers.get('cache-control')).toBe('no-store')
  expect(page.headers.get('content-type')).toContain('text/html')
  expect(page.headers.get('set-cookie')).toMatch(/; HttpOnly; SameSite=Strict$/)
  expect(gateway.calls).not.toContain('confirmProcessorAuthorization')
})

test('a click in the browser that opened the page connects the account', async () => {
  const { html, cookie } = await opened()
  const confirmation = /name="confirmation" value="([^"]+)"/.exec(html)?.[1] ?? ''
  const own = { origin: gateway.url, 'sec-fetch-site': 'same-origin' }
  const done = await click(cookie, own, confirmation)
  expect(done.status).toBe(200)
  const text = await done.text()
  expect(text).toContain('Connected')
  expect(text).toContain('<a href="/portal/settings?connected=acct_1#processor">')
  expect(asked).toEqual([
    { state: 'good', browser: cookie.split('=')[1] },
    { confirmation: 'confirm-1', browser: cookie.split('=')[1] },
  ])
})

test('each opening of the page gets its own browser secret, and a request without the cookie has none', async () => {
  const [first, second] = [await opened(), await opened()]
  expect(first.cookie).not.toBe(second.cookie)
  await click('')
  expect(asked.at(-1)).toEqual({ confirmation: 'confirm-1', browser: '' })
})

test.each([
  [{ origin: 'https://evil.example' }],
  [{ origin: 'null' }],
  [{ origin: 'https://evil.example', 'sec-fetch-site': 'cross-site' }],
])('a form of another page is refused before billing is called: %o', async (headers) => {
  const { cookie } = await opened()
  asked.length = 0
  const answer = await click(cookie, headers)
  expect(answer.status).toBe(400)
  expect(await answer.text()).toMatch(/origin/i)
  expect(asked).toEqual([])
})

test('the page shows errors as text, with status 400', async () => {
  const queries: Record<string, string>[] = [{ state: 'used', code: '1' }, { code: '1' }, {}]
  for (const query of queries) {
    const page = await look(query)
    expect(page.status).toBe(400)
    const html = await page.text()
    expect(html).toContain('role="alert"')
    expect(html).not.toContain('<script')
    expect(html).not.toContain('<form')
    expect(html).toContain('<a href="/portal/settings#processor">')
  }
  const taken = await click((await opened()).cookie, {}, 'taken')
  expect(taken.status).toBe(400)
  expect(await taken.text()).toContain('acct_1 is connected elsewhere')
  expect((await look({ state: 'down', code: '1' })).status).toBe(503)
})

test('a HEAD request, for example of a link preview, does not use the state up', async () => {
  expect((await look({ state: 'good', code: '1' }, 'HEAD')).status).not.toBe(200)
  expect(asked).toEqual([])
})

test('the return URL of an authorization is an address of this gateway', async () => {
  let returnUrl = ''
  gateway.answers.billing.beginProcessorAuthorization = async (request) => {
    returnUrl = request.returnUrl
    return { url: 'https://connect.example/oauth/authorize?state=1' }
  }
  const answer = await gateway.api.post('/v1/processor/authorizations')
  expect([answer.status, answer.body]).toEqual([
    201,
    { url: 'https://connect.example/oauth/authorize?state=1' },
  ])
  expect(returnUrl).toBe(`${gateway.url}${path}`)
})
