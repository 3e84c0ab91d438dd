import { timestampDate } from '@bufbuild/protobuf/wkt'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import type { TestNotifier } from '../../test/notifier.ts'
import { firstPage, notifierOfFile } from '../../test/notifier.ts'
import { updateStatistics } from './update-statistics.ts'

const vendor = notifierOfFile({ backoffSeconds: [600] })

/** Waits until the endpoint has so many pending deliveries, and failures since the last success. */
function settled(
  notifier: TestNotifier,
  endpointId: string,
  expected: { pending: number; failures: number },
) {
  return eventually(async () => {
    // The notifier does this every second.
    await updateStatistics({ sql: notifier.sql, alertQueued: () => {} })
    const [row] = await notifier.sql`
      select pending::int, failures::int from endpoint_health where endpoint_id = ${endpointId}`
    expect(row).toEqual(expected)
  })
}

async function alertsOf({ calls, of }: TestNotifier) {
  return (await calls.listAlerts({ accountId: of.accountId, ...firstPage })).alerts.toReversed()
}

async function happen(notifier: TestNotifier, receiver: HttpsReceiver, count: number) {
  const before = receiver.requests.length
  await notifier.happen(count)
  await receiver.received(before + count)
}

test('deliveries with an expired payload or a deleted endpoint do not count as pending', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = vendor()
  const { calls, of } = notifier
  const { id } = await notifier.register(receiver.url())
  await notifier.happen(5)
  await settled(notifier, id, { pending: 5, failures: 5 })
  await notifier.sql`delete from events where sequence = 1 and account_id = ${of.accountId}`
  notifier.clock.advance(600_000)
  // The four other deliveries are tried again.
  await settled(notifier, id, { pending: 4, failures: 9 })
  const { endpoints } = await calls.listEndpoints({ ...of, ...firstPage })
  expect(endpoints[0]!.health).toMatchObject({ pending: 4n })
  await calls.deleteEndpoint({ ...of, endpointId: id })
  const { health } = await calls.getEndpoint({ ...of, endpointId: id })
  expect(health!.pending).toBe(0n)
})

test('after 410 Gone the vendor is alerted at once, and at the sixth failure in a row only after a success', async () => {
  await using receiver = await startHttpsReceiver({ status: 500 })
  const notifier = vendor()
  const { id } = await notifier.register(receiver.url())
  await happen(notifier, receiver, 1)
  receiver.answerWith({ status: 410 })
  await happen(notifier, receiver, 1)
  await settled(notifier, id, { pending: 2, failures: 2 })
  const [alert] = await alertsOf(notifier)
  const { applicationId } = notifier.of
  expect(alert).toMatchObject({ kind: 'endpoint_failing', applicationId, endpointId: id })
  expect(alert!.detail).toContain(`${id} (${receiver.url()})`)
  expect(alert!.detail).toContain('410 Gone')
  await happen(notifier, receiver, 6)
  await settled(notifier, id, { pending: 8, failures: 8 })
  expect(await alertsOf(notifier)).toHaveLength(1)

  // The next alert would replace this one if it waited for its mail.
  await notifier.sql`update alerts set completed_at = now()`
  receiver.answerWith({ status: 200 })
  await happen(notifier, receiver, 1)
  await settled(notifier, id, { pending: 8, failures: 0 })
  receiver.answerWith({ status: 500 })
  await happen(notifier, receiver, 5)
  await settled(notifier, id, { pending: 13, failures: 5 })
  expect(await alertsOf(notifier)).toHaveLength(1)
  await happen(notifier, receiver, 1)
  await settled(notifier, id, { pending: 14, failures: 6 })
  const [, second] = await alertsOf(notifier)
  const { health } = await notifier.calls.getEndpoint({ ...notifier.of, endpointId: id })
  expect(second!.detail).toContain(timestampDate(health!.failingSince!).toISOString())
})
