import { callWithIds, callWithoutIds } from '@licensing/grpc/testing/unscoped-requests'
import { NotifierService } from '@licensing/proto/notifier'
import { contentsOf } from '@licensing/test-support/contents'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../test/notifier.ts'

// These tables change even if no RPC is called.
const ofConsumers = ['consumer_positions']

test('every RPC refuses a request without its account or application, and changes nothing', async () => {
  await using notifier = await startTestNotifier()
  const before = await contentsOf(notifier.sql, ofConsumers)
  const answers = await callWithoutIds(NotifierService, notifier.calls)
  expect(answers.length).toBeGreaterThan(NotifierService.methods.length)
  expect(answers.filter(({ answer }) => answer !== 'internal')).toEqual([])
  expect(await contentsOf(notifier.sql, ofConsumers)).toEqual(before)

  const complete = Object.entries(await callWithIds(NotifierService, notifier.calls))
  expect(complete.filter(([, answer]) => answer === 'internal')).toEqual([])
})
