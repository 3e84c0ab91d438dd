import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { mkdir, rm, utimes, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterAll, expect, test } from 'vitest'
import { gatewayOfFile, startGateway } from '../../test/gateway.ts'

const page =
  '<!doctype html><title>Licensing</title><script type="module" src="/portal/assets/index-h4sh.js"></script>'
const script = 'const text = "of the portal";\n'.repeat(100)
const built = await makeTemporaryFolder()
afterAll(() => built[Symbol.asyncDispose]())
await writeFile(join(built.path, 'secret.txt'), 'beside the portal')
await writeBuild('dist')
const gateway = await gatewayOfFile({ portalFolder: join(built.path, 'dist'), perKey: 1, perAddress: 1 })

async function writeBuild(name: string): Promise<void> {
  const dist = join(built.path, name)
  await mkdir(join(dist, 'assets'), { recursive: true })
  for (const [file, content] of [
    ['index.html', page],
    ['assets/index-h4sh.js', script],
  ] as const) {
    await writeFile(join(dist, file), content)
    await writeFile(join(dist, `${file}.br`), brotliCompressSync(content))
    await writeFile(join(dist, `${file}.gz`), gzipSync(content))
  }
  await writeFile(join(dist, 'favicon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
  await writeFile(join(dist, '.stamp'), 'of the build')
  await writeFile(join(dist, 'assets/index-h4sh.js.map'), '{}')
}

const get = (path: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}${path}`, { headers: { 'accept-encoding': 'identity', ...headers } })

/** Sends only the given headers; `fetch` would add its own. */
async function rawGet(path: string, headers: Record<string, string> = {}): Promise<IncomingMessage> {
  const sent = request({ port: gateway.port, path, headers }).end()
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return answer
}

test.each([
  '/portal',
  '/portal/',
  '/portal/licences/lic_1?tab=history',
  '/portal/a%2Fb',
  '/portal/index.html',
])('%s is the page, which browsers revalidate each time', async (path) => {
  const answer = await get(path)
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(answer.headers.get('cache-control')).toBe('no-cache')
  expect(await answer.text()).toBe(page)
  const again = await rawGet(path, { 'if-none-match': answer.headers.get('etag')! })
  expect(again.statusCode).toBe(304)
})

test('an asset is cached permanently; a missing asset is 404 and not the page', async () => {
  const answer = await get('/portal/assets/index-h4sh.js')
  expect(answer.headers.get('content-type')).toMatch(/^(text|application)\/javascript; charset=utf-8$/)
  expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(await answer.text()).toBe(script)
  const former = await get('/portal/assets/index-0ld.js')
  expect(former.status).toBe(404)
  expect(former.headers.get('content-type')).toContain('problem+json')
  const icon = await get('/portal/favicon.svg')
  expect(icon.headers.get('content-type')).toBe('image/svg+xml')
  expect(icon.headers.get('cache-control')).toBe('no-cache')
})

test.each(['/portal', '/portal/plans', '/portal/assets/index-h4sh.js', '/portal/assets/index-0ld.js'])(
  '%s allows only the gateway’s own files, and no frame around it',
  async (path) => {
    const { headers } = await get(path)
    expect(headers.get('content-security-policy')!.split('; ').toSorted()).toEqual([
      "base-uri 'none'",
      "connect-src 'self'",
      "default-src 'none'",
      "font-src 'self'",
      "form-action 'none'",
      "frame-ancestors 'none'",
      "img-src 'self' data:",
      "script-src 'self'",
      "style-src 'self'",
    ])
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('cross-origin-opener-policy')).toBe('same-origin')
    expect(headers.get('access-control-allow-origin')).toBeNull()
  },
)

test.each(['/portal/plans', '/portal/assets/index-h4sh.js'])(
  '%s is sent compressed if the browser accepts it',
  async (path) => {
    const sent = (encoding: string) => rawGet(path, { 'accept-encoding': encoding })
    for (const encoding of ['br', 'gzip']) {
      const answer = await sent(`${encoding}, identity;q=0.1`)
      expect(answer.headers).toMatchObject({
        'content-encoding': encoding,
        vary: expect.stringMatching(/accept-encoding/i) as string,
      })
      expect(answer.headers['content-type']).not.toContain('octet')
      answer.resume()
    }
    const content = path.endsWith('js') ? script : page
    expect(await (await get(path, { 'accept-encoding': 'gzip' })).text()).toBe(content)
    expect(await text(await sent('identity'))).toBe(content)
  },
)

test('no other file of the folder or the machine is served', async () => {
  const paths = [
    '/portal/.stamp',
    '/portal/../secret.txt',
    '/portal/..%2fsecret.txt',
    '/portal/%2e%2e/secret.txt',
    '/portal//etc/passwd',
    '/portal/assets/..%2f..%2fsecret.txt',
    '/portal/assets/index-h4sh.js.map',
    '/portal/index.html.gz',
    '/portal/%00',
  ]
  for (const path of paths) {
    const answer = await rawGet(path)
    const body = await text(answer)
    // Either the page or an error.
    if (answer.statusCode === 200) expect(body, path).toBe(page)
    else expect(answer.statusCode, path).toBeGreaterThanOrEqual(400)
    expect(body, path).not.toMatch(/of the build|beside the portal|root:/)
  }
})

test('other methods are 405', async () => {
  const answer = await fetch(`${gateway.url}/portal/plans`, { method: 'POST' })
  expect(answer.status).toBe(405)
  expect(answer.headers.get('allow')).toBe('GET, HEAD, OPTIONS')
  const head = await fetch(`${gateway.url}/portal`, { method: 'HEAD' })
  expect(head.status).toBe(200)
})

test('a page and its files do not count against any rate limit', async () => {
  for (let count = 0; count < 20; count++) {
    const answer = await get(count % 2 ? '/portal' : '/portal/assets/index-h4sh.js')
    expect(answer.status).toBe(200)
    expect(answer.headers.get('ratelimit')).toBeNull()
  }
})

test('if the portal is not built, the page says how to build it; after the build the page is served', async () => {
  const portalFolder = join(built.path, 'later')
  await using early = await startGateway({ portalFolder })
  const at = (path: string) => fetch(`${early.url}${path}`)
  for (const path of ['/portal', '/portal/plans']) {
    const answer = await at(path)
    expect(answer.status).toBe(404)
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8')
    expect(await answer.text()).toContain('`npm run portal`')
  }
  await writeBuild('later')
  expect(await (await at('/portal')).text()).toBe(page)
  // Another build with other file names replaces it.
  await writeFile(join(portalFolder, 'assets/index-n3w.js'), 'new')
  await writeFile(join(portalFolder, 'index.html'), 'new page')
  for (const packed of ['br', 'gz']) await rm(join(portalFolder, `index.html.${packed}`))
  await utimes(join(portalFolder, 'index.html'), new Date(), new Date(Date.now() + 1000))
  expect(await (await at('/portal')).text()).toBe('new page')
  expect(await (await at('/portal/assets/index-n3w.js')).text()).toBe('new')
})
