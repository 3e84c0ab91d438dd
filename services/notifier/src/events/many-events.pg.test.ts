import { newId } from '@licensing/database/ids'
import { partitionOf } from '@licensing/events/partitions'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenLicenceEvent, publish } from '../../test/events.ts'
import { startTestNotifier } from '../../test/notifier.ts'

/** Another account whose events share the partition. */
function neighbourOf(accountId: string) {
  for (;;) {
    const other = newId('acct')
    if (partitionOf(other) === partitionOf(accountId))
      return { accountId: other, applicationId: newId('app') }
  }
}

test('an account that sends thousands of events at once does not delay other accounts of its partition, and both keep their order', async () => {
  await using receiver = await startHttpsReceiver()
  receiver.answerWith(({ path }) => (path === '/quiet' ? {} : 'hang'))
  await using notifier = await startTestNotifier()
  await using _replica = await notifier.replica()
  for (const path of ['/dead/1', '/dead/2', '/dead/3']) await notifier.register(receiver.url(path))
  const quiet = neighbourOf(notifier.of.accountId)
  await notifier.calls.createEndpoint({
    ...quiet,
    fields: { url: receiver.url('/quiet'), subscribedEvents: '*' },
  })
  const recorded = async (accountId: string) => {
    const rows = await notifier.sql<{ id: string }[]>`
      select id from events where account_id = ${accountId} order by sequence`
    return rows.map(({ id }) => id)
  }

  const flood = Array.from({ length: 2_000 }, () => givenLicenceEvent(notifier.of))
  const own: string[] = []
  for (let round = 0; round < 4; round += 1) {
    await publish(notifier, flood.slice(round * 500, (round + 1) * 500))
    const event = givenLicenceEvent(quiet)
    await publish(notifier, [event])
    own.push(event.id)
  }
  // These events are delivered while more than a thousand earlier events are not even recorded.
  await eventually(() => expect(receiver.requests.filter(({ path }) => path === '/quiet')).toHaveLength(4), {
    intervalMs: 5,
  })
  expect((await recorded(notifier.of.accountId)).length).toBeLessThan(1_500)
  expect(await recorded(quiet.accountId)).toEqual(own)

  await eventually(async () => expect((await recorded(notifier.of.accountId)).length).toBe(2_000), {
    intervalMs: 200,
  })
  expect(await recorded(notifier.of.accountId)).toEqual(flood.map(({ id }) => id))
  const [row] = await notifier.sql<{ last: number }[]>`
    select max(sequence)::int as last from events where account_id = ${notifier.of.accountId}`
  expect(row).toEqual({ last: 2_000 })
  await receiver.pause()
})
