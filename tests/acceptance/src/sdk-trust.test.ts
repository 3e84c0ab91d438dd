import { memoryStore } from '@licensing/sdk'
import type { LicenceClientOptions } from '@licensing/sdk'
import { fileStore } from '@licensing/sdk/node'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { CompactSign, decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { keySet } from './published.ts'
import { expectStatus, givenFolder, givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()
const folder = await givenFolder()
const vendor = await givenVendor(stack)
const { install } = vendor
await vendor.define('export_pdf', 'feature')
await vendor.define('max_projects', 'limit', '3')
const plan = await vendor.plan({ entitlements: [{ key: 'export_pdf', value: 'true' }] })

const noNetwork: typeof fetch = () => Promise.reject(new TypeError('there is no network'))

/** An offline activation for the request of a product. */
async function givenFile(product: ReturnType<typeof install>) {
  const request = JSON.parse(product.createOfflineRequest()) as object
  const made = await vendor.api.post<{ activation_id: string; expires_at: string; file: string }>(
    `${vendor.app}/offline-activations`,
    { body: { ...request, days: 30 } },
  )
  expectStatus(made, 201)
  return made.body
}

/** An attacker with their own signing key and root key. */
async function givenForger() {
  const [signing, root] = await Promise.all([generateKeyPair('EdDSA'), generateKeyPair('EdDSA')])
  const key = { ...(await exportJWK(signing.publicKey)), kid: 'forged', alg: 'EdDSA', use: 'sig' }
  const iat = Math.floor(Date.now() / 1000)
  const payload = { app_id: vendor.appId, keys: [key], iat, exp: iat + 30 * 86_400 }
  return {
    key,
    rootKey: `lrk_${(await exportJWK(root.publicKey)).x}`,
    signedAs: (kid: string) =>
      new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
        .setProtectedHeader({ alg: 'EdDSA', kid })
        .sign(root.privateKey),
    token: (claims: Record<string, unknown>) =>
      new SignJWT({ ...claims, entitlements: { max_projects: '1000000' } })
        .setProtectedHeader({ alg: 'EdDSA', kid: 'forged' })
        .sign(signing.privateKey),
  }
}

test('if an attacker writes the store with their own keys, no part of it licenses the product', async () => {
  const licence = await vendor.issue(plan.id)
  const store = memoryStore()
  {
    using product = install({ licenceKey: licence.key, fingerprint: 'machine-1', store })
    expect(await product.activate()).toMatchObject({ status: 'licensed' })
  }
  const forger = await givenForger()
  const record = JSON.parse((await store.read())!) as Record<string, unknown>
  const claims = decodeJwt(String(record['token']))
  const token = await forger.token({ ...claims, exp: claims.exp! + 10 * 365 * 86_400 })
  const started = async (stored: object) => {
    const kept = memoryStore(JSON.stringify(stored))
    using product = install({ fingerprint: 'machine-1', store: kept, fetch: noNetwork })
    const { status } = await product.ready()
    return [status, product.limit('max_projects')]
  }
  for (const keys of [
    { jwks: { keys: [forger.key] } },
    { jwks: { keys: [forger.key] }, signed_keys: null },
    { signed_keys: await forger.signedAs(forger.rootKey) },
    { signed_keys: await forger.signedAs(vendor.rootKey) },
    { signed_keys: null, file_keys: await forger.signedAs(vendor.rootKey) },
  ]) {
    expect(await started({ ...record, token, ...keys })).toEqual(['unlicensed', 0])
  }
  expect(await started(record)).toEqual(['licensed', 3])
})

test('a server that replaces the service with its own keys licenses nothing', async () => {
  const { id, key: licenceKey } = await vendor.issue(plan.id)
  const forger = await givenForger()
  const iat = Math.floor(Date.now() / 1000)
  const times = { iat, exp: iat + 86_400, chk: 900 }
  const token = await forger.token({ sub: id, aud: vendor.appId, act: 'act_1', ...times })
  /** Activates a product whose requests are answered by the attacker, with these keys. */
  const activated = async (set: object, options: Partial<LicenceClientOptions> = {}) => {
    const inTheMiddle: typeof fetch = async (url) =>
      new Request(url).url.endsWith('/jwks.json')
        ? Response.json(set)
        : Response.json({ activation_id: 'act_1', licence_id: id, token }, { status: 201 })
    using product = install({ licenceKey, fetch: inTheMiddle, ...options })
    return { ...(await product.activate()), projects: product.limit('max_projects') }
  }
  const keys = [forger.key]
  for (const set of [
    { keys },
    { keys, signed: [await forger.signedAs(forger.rootKey)] },
    { keys, signed: [await forger.signedAs(vendor.rootKey)] },
    { keys, signed: (await keySet(vendor)).signed },
  ]) {
    const state = await activated(set)
    expect(state).toMatchObject({ status: 'unlicensed', usable: false, projects: 0 })
    expect(state.reason).toMatch(/^untrusted_(keys|signature)$/)
  }
  expect(await activated({ keys }, { rootKey: 'unpinned' })).toMatchObject({ status: 'licensed' })
})

test('a file licenses a machine without a network, also after a restart', async () => {
  const store = fileStore(join(folder.path, 'licence.json'))
  const { id, key: licenceKey } = await vendor.issue(plan.id, { restrictions: { max_activations: 1 } })
  const options = { licenceKey, fingerprint: 'machine-1', fetch: noNetwork, store }
  using product = install(options)
  expect(JSON.parse(product.createOfflineRequest())).toEqual({
    licence_key: licenceKey,
    fingerprint: 'machine-1',
    host: 'build-7.example.com',
    product_version: '4.2.0',
  })
  const { activation_id: activationId, expires_at: expiresAt, file } = await givenFile(product)
  expect(await product.activateOffline(file.replaceAll('\n', '\r\n'))).toMatchObject({
    status: 'licensed',
    offline: true,
    licenceId: id,
    activationId,
    expiresAt,
    problem: null,
  })
  expect([product.hasFeature('export_pdf'), product.limit('max_projects')]).toEqual([true, 3])

  using restarted = install(options)
  expect(await restarted.activate()).toMatchObject({ status: 'licensed', offline: true })
  let now = Date.parse(expiresAt) - 1000
  using later = install({ ...options, clock: () => now })
  expect(await later.activate()).toMatchObject({ status: 'licensed' })
  now += 1000
  expect(later.state).toMatchObject({ status: 'lapsed', usable: false })
})

test('a file is refused on another machine, in another application, without a root key, and after an edit', async () => {
  const { key: licenceKey } = await vendor.issue(plan.id)
  using asking = install({ licenceKey, fingerprint: 'machine-1', fetch: noNetwork })
  const { file } = await givenFile(asking)
  const [begin, token, ...rest] = file.split('\n')
  const [header, , signature] = token!.split('.')
  const claims = { ...decodeJwt(token!), entitlements: { max_projects: '1000000' } }
  const edited = Buffer.from(JSON.stringify(claims)).toString('base64url')
  const forged = [begin, [header, edited, signature].join('.'), ...rest].join('\n')
  const { appId, rootKey } = await givenVendor(stack)
  for (const [reason, options, text] of [
    ['file_of_another_machine', { fingerprint: 'machine-2' }, file],
    ['file_of_another_application', { appId }, file],
    ['file_of_another_application', { appId, rootKey }, file],
    ['untrusted_keys', { rootKey }, file],
    ['root_key_required', { rootKey: 'unpinned' }, file],
    ['untrusted_signature', {}, forged],
  ] as const) {
    using product = install({ fingerprint: 'machine-1', fetch: noNetwork, ...options })
    expect(await product.activateOffline(text)).toMatchObject({ usable: false, reason })
  }
})

test('a revocation reaches an offline licence when its machine is online', async () => {
  const licence = await vendor.issue(plan.id)
  using product = install({ licenceKey: licence.key })
  const { file } = await givenFile(product)
  expect(await product.activateOffline(file)).toMatchObject({ status: 'licensed' })
  expectStatus(await vendor.verb('revoke', licence.id), 200)
  expect(product.state.status).toBe('licensed')
  const refused = { status: 'refused', reason: 'revoked' }
  await eventually(async () => expect(await product.check()).toMatchObject(refused))
  expect(await product.activateOffline(file)).toMatchObject(refused)
})

test('after a rotation of the root key old and new releases work, until the old key is retired', async () => {
  const own = await givenVendor(stack)
  const { key: licenceKey } = await own.issue((await own.plan()).id)
  const activated = async (rootKey: string | string[]) => {
    using product = own.install({ rootKey, licenceKey })
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
  const untrusted = { status: 'unlicensed', reason: 'untrusted_keys' }
  await eventually(async () => expect(await activated(own.rootKey)).toMatchObject(untrusted))
  expect(await activated([next, own.rootKey])).toMatchObject({ status: 'licensed' })
})
