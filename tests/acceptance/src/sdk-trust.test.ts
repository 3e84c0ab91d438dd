import { LicenceClient, memoryStore } from '@licensing/sdk'
import type { LicenceClientOptions } from '@licensing/sdk'
import { fileStore } from '@licensing/sdk/node'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { runAdmin } from '@licensing/test-support/run-admin'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { exportJWK, generateKeyPair, SignJWT, CompactSign, decodeJwt } from 'jose'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { givenVendor } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
beforeAll(async () => {
  stack = await sharedStack()
  vendor = await givenVendor(stack)
  await vendor.define('export_pdf', 'feature')
  await vendor.define('max_projects', 'limit', '3')
})
afterAll(() => stack[Symbol.asyncDispose]())

async function givenLicence(fields: Record<string, unknown> = {}): Promise<Licence> {
  const plan = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })
  return vendor.issue(plan.id, fields)
}

const installedProduct = (options: Partial<LicenceClientOptions> = {}) =>
  new LicenceClient({
    baseUrl: stack.gatewayUrl,
    appId: vendor.appId,
    rootKey: vendor.rootKey,
    fingerprint: 'machine-1',
    host: 'build-7.example.com',
    productVersion: '4.2.0',
    background: false,
    ...options,
  })

const noNetwork: typeof fetch = () => Promise.reject(new TypeError('there is no network'))

/** An attacker with their own signing key and root key. */
async function givenForger() {
  const [signing, root] = await Promise.all([generateKeyPair('EdDSA'), generateKeyPair('EdDSA')])
  const key = { ...(await exportJWK(signing.publicKey)), kid: 'forged', alg: 'EdDSA', use: 'sig' }
  const iat = Math.floor(Date.now() / 1000)
  const payload = { app_id: vendor.appId, keys: [key], iat, exp: iat + 30 * 86_400 }
  const rootKey = `lrk_${(await exportJWK(root.publicKey)).x}`
  const signedAs = (kid: string) =>
    new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
      .setProtectedHeader({ alg: 'EdDSA', kid })
      .sign(root.privateKey)
  const token = (claims: Record<string, unknown>) =>
    new SignJWT(claims).setProtectedHeader({ alg: 'EdDSA', kid: 'forged' }).sign(signing.privateKey)
  return { key, rootKey, signedAs, token }
}

test('if an attacker writes the store with their own keys, no part of it licenses the product', async () => {
  const licence = await givenLicence()
  const store = memoryStore()
  {
    using product = installedProduct({ licenceKey: licence.key, store })
    expect(await product.activate()).toMatchObject({ status: 'licensed' })
  }
  const forger = await givenForger()
  const record = JSON.parse((await store.read())!) as Record<string, unknown>
  const claims = decodeJwt(String(record['token']))
  const token = await forger.token({
    ...claims,
    exp: claims.exp! + 10 * 365 * 86_400,
    entitlements: { max_projects: '1000000' },
  })
  const forged = [
    { jwks: { keys: [forger.key] } },
    { jwks: { keys: [forger.key] }, signed_keys: null },
    { signed_keys: await forger.signedAs(forger.rootKey) },
    { signed_keys: await forger.signedAs(vendor.rootKey) },
    { signed_keys: null, file_keys: await forger.signedAs(vendor.rootKey) },
  ]
  for (const keys of forged) {
    const text = JSON.stringify({ ...record, token, ...keys })
    using product = installedProduct({ store: memoryStore(text), fetch: noNetwork })
    expect(await product.ready()).toMatchObject({ status: 'unlicensed', usable: false })
    expect(product.limit('max_projects')).toBe(0)
  }
  using untouched = installedProduct({ store: memoryStore(JSON.stringify(record)), fetch: noNetwork })
  expect(await untouched.ready()).toMatchObject({ status: 'licensed' })
})

test('a server that replaces the service with its own keys licenses nothing', async () => {
  const licence = await givenLicence()
  const forger = await givenForger()
  const iat = Math.floor(Date.now() / 1000)
  const token = await forger.token({
    sub: licence.id,
    aud: vendor.appId,
    act: 'act_1',
    iat,
    exp: iat + 86_400,
    chk: 900,
    entitlements: { max_projects: '1000000' },
  })
  const genuine = (await stack.api.get<{ signed: string[] }>(`${vendor.app}/jwks.json`)).body
  const sets = [
    { keys: [forger.key] },
    { keys: [forger.key], signed: [await forger.signedAs(forger.rootKey)] },
    { keys: [forger.key], signed: [await forger.signedAs(vendor.rootKey)] },
    { keys: [forger.key], signed: genuine.signed },
  ]
  for (const set of sets) {
    const inTheMiddle: typeof fetch = async (url) =>
      new Request(url).url.endsWith('/jwks.json')
        ? Response.json(set)
        : Response.json({ activation_id: 'act_1', licence_id: licence.id, token }, { status: 201 })
    using product = installedProduct({ licenceKey: licence.key, fetch: inTheMiddle })
    const state = await product.activate()
    expect(state).toMatchObject({ status: 'unlicensed', usable: false })
    expect(state.reason).toMatch(/^untrusted_(keys|signature)$/)
    expect(product.limit('max_projects')).toBe(0)
  }
  const believing = installedProduct({
    rootKey: 'unpinned',
    licenceKey: licence.key,
    fetch: async (url) =>
      new Request(url).url.endsWith('/jwks.json')
        ? Response.json(sets[0])
        : Response.json({ activation_id: 'act_1', licence_id: licence.id, token }, { status: 201 }),
  })
  expect(await believing.activate()).toMatchObject({ status: 'licensed' })
})

test('a file licenses a machine without a network, also after a restart', async () => {
  await using folder = await makeTemporaryFolder()
  const store = fileStore(join(folder.path, 'licence.json'))
  const licence = await givenLicence({ restrictions: { max_activations: 1 } })
  const options = { licenceKey: licence.key, fetch: noNetwork, store }
  using product = installedProduct(options)
  const request = JSON.parse(product.createOfflineRequest()) as Record<string, unknown>
  expect(request).toEqual({
    licence_key: licence.key,
    fingerprint: 'machine-1',
    host: 'build-7.example.com',
    product_version: '4.2.0',
  })
  const answer = await stack.api.post<{ activation_id: string; expires_at: string; file: string }>(
    `${vendor.app}/offline-activations`,
    { body: { ...request, days: 90 } },
  )
  expect(answer.status).toBe(201)
  expect(await product.activateOffline(answer.body.file.replaceAll('\n', '\r\n'))).toMatchObject({
    status: 'licensed',
    offline: true,
    licenceId: licence.id,
    activationId: answer.body.activation_id,
    expiresAt: answer.body.expires_at,
    problem: null,
  })
  expect([product.hasFeature('export_pdf'), product.limit('max_projects')]).toEqual([true, 3])

  using restarted = installedProduct(options)
  expect(await restarted.activate()).toMatchObject({ status: 'licensed', offline: true })
  let now = Date.parse(answer.body.expires_at) - 1000
  using later = installedProduct({ ...options, clock: () => now })
  expect(await later.activate()).toMatchObject({ status: 'licensed' })
  now += 1000
  expect(later.state).toMatchObject({ status: 'lapsed', usable: false })
})

test('a file is refused on another machine, in another application, without a root key, and after an edit', async () => {
  const licence = await givenLicence()
  using asking = installedProduct({ licenceKey: licence.key, fetch: noNetwork })
  const request = JSON.parse(asking.createOfflineRequest()) as Record<string, unknown>
  const { body } = await stack.api.post<{ file: string }>(`${vendor.app}/offline-activations`, {
    body: { ...request, days: 30 },
  })
  const other = await givenVendor(stack, 'Other')
  const reasonOf = async (options: Partial<LicenceClientOptions>, file = body.file) => {
    using product = installedProduct({ fetch: noNetwork, ...options })
    const { usable, reason } = await product.activateOffline(file)
    expect(usable).toBe(false)
    return reason
  }
  expect(await reasonOf({ fingerprint: randomUUID() })).toBe('file_of_another_machine')
  expect(await reasonOf({ appId: other.appId })).toBe('file_of_another_application')
  expect(await reasonOf({ appId: other.appId, rootKey: other.rootKey })).toBe('file_of_another_application')
  expect(await reasonOf({ rootKey: other.rootKey })).toBe('untrusted_keys')
  expect(await reasonOf({ rootKey: 'unpinned' })).toBe('root_key_required')
  const [begin, token, ...rest] = body.file.split('\n')
  const [header, payload, signature] = token!.split('.')
  const claims = { ...decodeJwt(token!), entitlements: { max_projects: '1000000' } }
  const edited = Buffer.from(JSON.stringify(claims)).toString('base64url')
  expect(payload).not.toBe(edited)
  const forged = [begin, [header, edited, signature].join('.'), ...rest].join('\n')
  expect(await reasonOf({}, forged)).toBe('untrusted_signature')
})

test('a revocation reaches an offline licence when its machine is online', async () => {
  const licence = await givenLicence()
  using product = installedProduct({ licenceKey: licence.key })
  const request = JSON.parse(product.createOfflineRequest()) as Record<string, unknown>
  const { body } = await stack.api.post<{ file: string }>(`${vendor.app}/offline-activations`, {
    body: { ...request, days: 30 },
  })
  expect(await product.activateOffline(body.file)).toMatchObject({ status: 'licensed' })
  expect((await vendor.verb('revoke', licence.id)).status).toBe(200)
  expect(product.state.status).toBe('licensed')
  await eventually(async () => {
    expect(await product.check()).toMatchObject({ status: 'refused', reason: 'revoked' })
  })
  expect(await product.activateOffline(body.file)).toMatchObject({ status: 'refused', reason: 'revoked' })
})

test('after a rotation of the root key old and new releases work, until the old key is retired', async () => {
  const own = await givenVendor(stack, 'Rotating')
  const licence = await own.issue((await own.plan()).id)
  const release = (rootKey: string | string[]) =>
    installedProduct({ appId: own.appId, rootKey, licenceKey: licence.key })
  const activated = async (rootKey: string | string[]) => {
    using product = release(rootKey)
    return await product.activate()
  }
  const rotated = await runAdmin(stack, 'rotate-root-key', '--app', own.appId)
  const { root_key: next } = JSON.parse(rotated.stdout) as { root_key: string }
  await eventually(async () => {
    for (const rootKey of [own.rootKey, next, [next, own.rootKey]]) {
      expect(await activated(rootKey)).toMatchObject({ status: 'licensed', problem: null })
    }
  })
  await runAdmin(stack, 'rotate-root-key', '--app', own.appId, '--retire', '--force')
  await eventually(async () => {
    expect(await activated(own.rootKey)).toMatchObject({ status: 'unlicensed', reason: 'untrusted_keys' })
  })
  expect(await activated([next, own.rootKey])).toMatchObject({ status: 'licensed' })
})
