import { ServiceError } from '@licensing/grpc/errors'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { appId, gatewayOfFile, otherAppId, startGateway } from '../../test/gateway.ts'
import type { StandIns } from '../../test/gateway.ts'

const built = await makeTemporaryFolder()
afterAll(() => built[Symbol.asyncDispose]())
await mkdir(join(built.path, 'customer/assets'), { recursive: true })
await writeFile(join(built.path, 'index.html'), 'the portal')
await writeFile(join(built.path, 'customer/index.html'), 'the customer’s page')
await writeFile(join(built.path, 'customer/assets/index-h4sh.js'), 'const text = 1')
const gateway = await gatewayOfFile({ portalFolder: built.path })
const findCustomerPage: NonNullable<StandIns['catalog']['findCustomerPage']> = async ({ applicationId }) => {
  if (applicationId === otherAppId) throw new ServiceError('unavailable', 'the catalog is restarting')
  if (applicationId !== appId) throw new ServiceError('not_found', 'there is no such application')
  return { name: 'Studio', page: { freesPerDay: 3, offlineDays: 0, keySignIn } }
}
gateway.answers.catalog.findCustomerPage = findCustomerPage
let keySignIn = true

const get = (path: string) => fetch(`${gateway.url}${path}`)

test('the page is served with a strict policy, no referrer and not in a frame', async () => {
  for (const path of ['/customer', `/customer/${appId}`]) {
    const { status, headers } = await get(path)
    expect([path, status]).toEqual([path, 200])
    const policy = headers.get('content-security-policy')!
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self'; /)
    for (const part of [
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'none'",
      "connect-src 'self'",
    ])
      expect(policy.split('; ')).toContain(part)
    expect(headers.get('referrer-policy')).toBe('no-referrer')
    expect(headers.get('x-content-type-options')).toBe('nosniff')
    expect(headers.get('cache-control')).toBe('no-cache')
  }
  expect(await (await get('/customer')).text()).toBe('the customer’s page')
})

test('if customers cannot sign in with a key, the application’s page is 404 and is the page, which says so', async () => {
  keySignIn = false
  for (const id of [appId, 'app_01k9zj3v8qe5ktw2m4x6r7n8zz', 'x', '☂', '%00']) {
    const answer = await get(`/customer/${id}`)
    expect([id, answer.status]).toEqual([id, 404])
    expect(await answer.text()).toBe('the customer’s page')
    expect(answer.headers.get('content-security-policy')).toContain("frame-ancestors 'none'")
  }
  expect((await get('/customer')).status).toBe(200)
  keySignIn = true
  expect((await get(`/customer/${appId}`)).status).toBe(200)
  expect((await get(`/customer/${otherAppId}`)).status).toBe(503)
})

test('its files are kept for long, and a missing one is no page', async () => {
  const file = await get('/customer/assets/index-h4sh.js')
  expect([file.status, file.headers.get('cache-control')]).toEqual([
    200,
    'public, max-age=31536000, immutable',
  ])
  for (const name of ['index-0ld.js', '..%2f..%2findex.html', '%2e%2e%2findex.html']) {
    const missing = await get(`/customer/assets/${name}`)
    expect([name, missing.status]).toEqual([name, 404])
    expect(missing.headers.get('content-type')).toContain('problem+json')
  }
})

test('looking for applications is limited by address', async () => {
  await using limited = await startGateway({ portalFolder: built.path, perAddress: 1 })
  limited.answers.catalog.findCustomerPage = findCustomerPage
  const look = async () => (await fetch(`${limited.url}/customer/${appId}`)).status
  expect([await look(), await look()]).toEqual([200, 429])
})

test('without a build the page says how to make one', async () => {
  await using unbuilt = await startGateway()
  const answer = await fetch(`${unbuilt.url}/customer`)
  expect(answer.status).toBe(404)
  expect(await answer.text()).toContain('npm run portal')
})
