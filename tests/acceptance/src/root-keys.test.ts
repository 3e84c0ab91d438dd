import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { compactVerify, decodeProtectedHeader, importJWK } from 'jose'
import { expect, test } from 'vitest'
import { keySet } from './published.ts'
import { allRows, givenStack, givenVendor, isoTime, unknownId } from './vendor.ts'

const stack = await givenStack()
const { api } = stack

interface Application {
  id: string
  root_key: string
}

const rootKeyPattern = /^lrk_[A-Za-z0-9_-]{43}$/
const rootKeyOf = async (app: string) => (await api.get<Application>(app)).body.root_key
const signersOf = (signed: string[]) => signed.map((jws) => decodeProtectedHeader(jws).kid!)

/** Verifies a JWS with the text of a root key, and returns its content. */
async function vouched(jws: string, rootKey: string) {
  const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x: rootKey.slice(4) }, 'EdDSA')
  const { payload, protectedHeader } = await compactVerify(jws, key)
  expect(protectedHeader).toEqual({ alg: 'EdDSA', kid: rootKey })
  return JSON.parse(new TextDecoder().decode(payload)) as Record<string, unknown> & { iat: number }
}

test('each application has its own root key, shown on creation, in the application and in the list', async () => {
  const made = await api.post<Application>('/v1/apps', { body: { name: 'Studio' } })
  expect(made).toMatchObject({ status: 201 })
  expect(made.body).toEqual({
    id: expect.stringMatching(/^app_[0-9a-z]{26}$/) as string,
    name: 'Studio',
    account_id: stack.accountId,
    root_key: expect.stringMatching(rootKeyPattern) as string,
    expiring_notice_days: 14,
    customer_page: {
      support_url: null,
      accent_color: null,
      frees_per_day: 3,
      offline_days: 0,
      key_sign_in: false,
    },
    created_at: expect.stringMatching(isoTime) as string,
  })
  const rows = await allRows<Application>(api, '/v1/apps', 1)
  // The first application of an account was not created by a request.
  expect(rows.map(({ id }) => id)).toEqual([made.body.id, stack.appId])
  for (const row of rows) {
    expect(row.root_key).toMatch(rootKeyPattern)
    expect((await api.get(`/v1/apps/${row.id}`)).body).toEqual(row)
  }
  expect(rows[0]!.root_key).not.toBe(rows[1]!.root_key)
})

test('jwks.json has the key set signed by the root key, valid for 30 days and the same from every replica', async () => {
  const vendor = await givenVendor(stack)
  const answers = await Promise.all(Array.from({ length: 40 }, () => keySet(vendor)))
  expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1)
  const { keys, signed } = answers[0]!
  expect(signed).toHaveLength(1)
  const claims = await vouched(signed[0]!, vendor.rootKey)
  const { iat } = claims
  expect(claims).toEqual({ app_id: vendor.appId, keys, iat, exp: iat + 30 * 86_400 })
})

test('the operator rotates a root key, and retires the former key 180 days later or by force', async () => {
  const vendor = await givenVendor(stack)
  const { appId, rootKey: first } = vendor
  const rotate = (...options: string[]) => runAdmin(stack, 'rotate-root-key', '--app', appId, ...options)
  const { root_key: next } = JSON.parse((await rotate()).stdout) as { root_key: string }
  expect(next).toMatch(rootKeyPattern)
  expect(next).not.toBe(first)
  // On all replicas within 60 seconds.
  await eventually(async () => expect(await rootKeyOf(vendor.app)).toBe(next))
  await eventually(async () => {
    const { keys, signed } = await keySet(vendor)
    expect(signersOf(signed)).toEqual([next, first])
    const [mine, former] = [await vouched(signed[0]!, next), await vouched(signed[1]!, first)]
    for (const claims of [mine, former]) expect(claims).toMatchObject({ app_id: appId, keys })
  })
  const early = await rotate('--retire')
  expect(early).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('--force') as string })
  const forced = JSON.parse((await rotate('--retire', '--force')).stdout) as object
  expect(forced).toEqual({ app_id: appId, root_key: next, current: [next], retired: [first] })
  await eventually(async () => expect(signersOf((await keySet(vendor)).signed)).toEqual([next]))
  expect(await runAdmin(stack, 'rotate-root-key', '--app', unknownId('app'))).toMatchObject({ code: 1 })
})
