import { eventually } from '@licensing/test-support/poll'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { compactVerify, createLocalJWKSet } from 'jose'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { publicKeys, revocations } from './published.ts'
import type { Revocations } from './published.ts'
import { expectProblem, givenVendor } from './vendor.ts'

let stack: Stack
beforeAll(async () => {
  stack = await sharedStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

test('a revocation is in the signed list within 2 seconds, and stays when the licence is retired', async () => {
  const own = await givenVendor(stack)
  const plan = await own.plan()
  expect((await revocations(own)).body).toMatchObject({ version: 0, revoked: [] })
  const ids: string[] = []
  for (let count = 1; count <= 3; count += 1) {
    const licence = await own.issue(plan.id)
    await own.verb('revoke', licence.id)
    ids.push(licence.id)
    await eventually(async () => expect((await revocations(own)).body.revoked).toEqual(ids), {
      timeoutMs: 2_000,
    })
  }
  await own.verb('retire', ids[0]!)
  for (const since of [undefined, 0, 1, 3]) {
    const query = since === undefined ? '' : `?since=${since}`
    const { status, body } = await revocations(own, query)
    expect(status).toBe(200)
    expect(body).toEqual({
      version: 3,
      revoked: ids.slice(since ?? 0),
      signature: expect.any(String) as string,
    })
    const keys = createLocalJWKSet(await publicKeys(own))
    const { payload } = await compactVerify(body.signature, keys, { algorithms: ['EdDSA'] })
    const signed = JSON.parse(new TextDecoder().decode(payload)) as { iat: number; exp: number }
    const { iat, exp } = signed
    const { version, revoked } = body
    expect(signed).toEqual({ app_id: own.appId, version, since: since ?? null, revoked, iat, exp })
    expect(exp).toBeGreaterThan(Date.now() / 1000)
  }
  for (const since of ['4', '-1', 'x', '1.5', '', '99999999999999999999']) {
    expectProblem(await revocations(own, `?since=${since}`), 422, 'validation_failed')
  }
})

test('a client that has the list gets 304 until the list changes', async () => {
  const own = await givenVendor(stack)
  const plan = await own.plan()
  const first = await revocations(own)
  const etag = first.headers.get('etag')!
  expect(etag).toMatch(/^"[^"]+"$/)
  expect(first.headers.get('cache-control')).toMatch(/max-age=[012]\b/)
  for (let poll = 0; poll < 4; poll += 1) {
    const unchanged = await revocations(own, '', { 'if-none-match': etag })
    expect(unchanged.status).toBe(304)
    expect(unchanged.body).toBe(undefined)
    expect(unchanged.headers.get('etag')).toBe(etag)
  }
  const licence = await own.issue(plan.id)
  await own.verb('revoke', licence.id)
  await eventually(async () => {
    const changed = await revocations(own, '', { 'if-none-match': etag })
    expect(changed).toMatchObject({ status: 200, body: { version: 1, revoked: [licence.id] } })
  })
})

test('while 50 licences are revoked at once, a client that reads version by version misses none', async () => {
  const own = await givenVendor(stack)
  const plan = await own.plan()
  const licences = await Promise.all(Array.from({ length: 50 }, () => own.issue(plan.id)))
  const followers = stack.gatewayUrls.map(async (gatewayUrl) => {
    const seen: string[] = []
    await eventually(
      async () => {
        const url = `${gatewayUrl}${own.app}/revocations?since=${seen.length}`
        const { version, revoked } = (await (await fetch(url)).json()) as Revocations
        expect(revoked).toHaveLength(version - seen.length)
        seen.push(...revoked)
        return seen.length === licences.length
      },
      { intervalMs: 1 },
    )
    return seen
  })
  await Promise.all(licences.map(({ id }) => own.verb('revoke', id)))
  const wanted = licences.map(({ id }) => id).toSorted()
  for (const seen of await Promise.all(followers)) expect(seen.toSorted()).toEqual(wanted)
})
