import { callWithIds, callWithoutIds } from '@licensing/grpc/testing/unscoped-requests'
import { BillingService } from '@licensing/proto/billing'
import { contentsOf } from '@licensing/test-support/contents'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startHarness } from '../test/harness.ts'

test('every RPC refuses a request without its account or application, and changes nothing', async () => {
  await using harness = await startHarness()
  // It learns this from licensing when it starts.
  const epoch = async () => (await harness.sql<{ ordinal: bigint }[]>`select ordinal from licensing_epoch`)[0]
  await eventually(async () => expect((await epoch())?.ordinal).toBeGreaterThan(0n), { timeoutMs: 30_000 })
  const before = await contentsOf(harness.sql)
  const answers = await callWithoutIds(BillingService, harness.billing)
  expect(answers.length).toBeGreaterThan(BillingService.methods.length)
  expect(answers.filter(({ answer }) => answer !== 'internal')).toEqual([])
  expect(await contentsOf(harness.sql)).toEqual(before)

  const complete = Object.entries(await callWithIds(BillingService, harness.billing))
  expect(complete.filter(([, answer]) => answer === 'internal')).toEqual([])
})
