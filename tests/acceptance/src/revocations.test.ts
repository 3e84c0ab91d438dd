import { eventually } from '@licensing/test-support/poll'
import { compactVerify } from 'jose'
import { expect, test } from 'vitest'
import { publicKeys, revocations } from './published.ts'
import type { Revocations } from './published.ts'
import { expectProblem, givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()

test('a revocation is in the signed list within 2 seconds, and stays when the licence is retired', async () => {
  const own = await givenVendor(stack)
  const plan = await own.plan()
  expect((await revocations(own)).body).toMatchObject({ version: 0, revoked: [] })
  const ids: string[] = []
  for (let count = 1; count <= 3; count += 1) {
    const { id } = await own.issue(plan.id)
    await own.verb('revoke', id)
    ids.push(id)
    await eventually(async () => expect((await revocations(own)).body.revoked).toEqual(ids), {
      timeoutMs: 2_000,
    })
  }
  await own.verb('retire', ids[0]!)
  for (const since of [null, 0, 1, 3]) {
    const { status, body } = await revocations(own, since === null ? '' : `?since=${since}`)
    expect(status).toBe(200)
    const { signature, ...list } = body
    expect(list).toEqual({ version: 3, revoked: ids.slice(since ?? 0), more: false })
    const { payload } = await compactVerify(signature, await publicKeys(own), { algorithms: ['EdDSA'] })
    const signed = JSON.parse(new TextDecoder().decode(payload)) as { iat: number; exp: number }
    const { iat, exp } = signed
    expect(signed).toEqual({ app_id: own.appId, since, ...list, iat, exp })
    expect(exp).toBeGreaterThan(Date.now() / 1000)
  }
  for (const since of ['4', '-1', 'x', '1.5', '', '99999999999999999999']) {
    expectProblem(await revocations(own, `?since=${since}`), 422, 'validation_failed')
  }
})

test('a client that has the list gets 304 until the list changes', async () => {
  const own = await givenVendor(stack)
  const first = await revocations(own)
  const etag = first.headers.get('etag')!
  expect(etag).toMatch(/^"[^"]+"$/)
  expect(first.headers.get('cache-control')).toMatch(/max-age=[012]\b/)
  const poll = () => revocations(own, '', { 'if-none-match': etag })
  const unchanged = await poll()
  expect([unchanged.status, unchanged.body, unchanged.headers.get('etag')]).toEqual([304, undefined, etag])
  const { id } = await own.issue((await own.plan()).id)
  await own.verb('revoke', id)
  await eventually(async () =>
    expect(await poll()).toMatchObject({ status: 200, body: { version: 1, revoked: [id] } }),
  )
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
