import { callWithIds, callWithoutIds } from '@licensing/grpc/testing/unscoped-requests'
import { LicensingService } from '@licensing/proto/licensing'
import { ProductService } from '@licensing/proto/products'
import { RootKeyService } from '@licensing/proto/root-keys'
import { contentsOf } from '@licensing/test-support/contents'
import { failWrites } from '@licensing/test-support/failing-writes'
import { expect, test } from 'vitest'
import { startHarness } from './harness.ts'
import { activeOn, atOnce, givenPlan, issue, refusal } from './makers.ts'

test('every RPC refuses a request without its account or application, and changes nothing', async () => {
  await using harness = await startHarness()
  const before = await contentsOf(harness.sql)
  const answers = [
    ...(await callWithoutIds(LicensingService, harness.licensing)),
    ...(await callWithoutIds(ProductService, harness.products)),
    ...(await callWithoutIds(RootKeyService, harness.rootKeys)),
  ]
  expect(answers.length).toBeGreaterThan(LicensingService.methods.length)
  expect(answers.filter(({ answer }) => answer !== 'internal')).toEqual([])
  expect(await contentsOf(harness.sql)).toEqual(before)
})

test('the same requests with all ids are answered, or refused for other reasons', async () => {
  await using harness = await startHarness()
  const answers = {
    ...(await callWithIds(LicensingService, harness.licensing)),
    ...(await callWithIds(ProductService, harness.products)),
    ...(await callWithIds(RootKeyService, harness.rootKeys)),
  }
  expect(Object.entries(answers).filter(([, answer]) => answer === 'internal')).toEqual([])
})

test.each(['53100', '53200', '25006', '42703', '40001'])(
  'calls that PostgreSQL refuses with %s are unavailable, and their repetitions succeed',
  async (state) => {
    await using harness = await startHarness()
    const { id: planId } = await givenPlan(harness)
    const disk = await failWrites(harness.sql, 'licences', state)
    const call = (at: number) => issue(harness, { planId, idempotencyKey: `key-${at}` })
    const refusals = await atOnce(5, (at) => refusal(call(at)))
    expect(refusals.map(({ code }) => code)).toEqual(Array(5).fill('unavailable'))
    await disk.end()
    await atOnce(5, call)
    expect(await activeOn(harness, { id: planId })).toBe(5n)
  },
)
