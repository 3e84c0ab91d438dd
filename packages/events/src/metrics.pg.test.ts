import { transaction } from '@licensing/database/transaction'
import { measureAll } from '@licensing/process/measures'
import { startOwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { connect } from 'nats'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { upTo } from './testing/given.ts'
import { givenPipeline } from './testing/pipeline.ts'

/** The sum of a metric over the labels of this producer. Other tests of the process have used other producers. */
async function valueOf(name: string): Promise<number> {
  await measureAll()
  const { values } = await register.getSingleMetric(name)!.get()
  const own = values.filter(({ labels }) =>
    Object.values(labels).some((label) => /^licensing/i.test(String(label))),
  )
  return own.reduce((sum, { value }) => sum + value, 0)
}

const expectAbove = (name: string, least: number) =>
  eventually(async () => expect(await valueOf(name)).toBeGreaterThan(least))

test('metrics show events that wait, how far a consumer is behind, the size of the log, and filled gaps', async () => {
  await using nats = await startOwnNats()
  await using given = await givenPipeline({
    sender: nats.urlOf('licensing'),
    receiver: nats.urlOf('notifier'),
    replicas: 1,
  })
  const { producer, consumer, change } = given
  // Another consumer that has confirmed everything.
  await producer.sql`
    insert into event_log_readers (consumer, partition, epoch, number)
    select 'catalog', partition, ${2n ** 62n}, 0 from generate_series(0, 7) as partition`
  await producer.start()
  await consumer.start()
  await change('acct_a', 1, 5)
  await eventually(async () => expect(await given.consumed()).toEqual({ acct_a: upTo(5) }))
  await eventually(async () => expect(await valueOf('event_log_unconfirmed_seconds')).toBe(0))
  expect(await valueOf('event_log_bytes')).toBeGreaterThan(0)

  // The consumer cannot write effects as long as another transaction has locked their table.
  await transaction(consumer.sql, async (tx) => {
    await tx`lock table effects`
    await change('acct_a', 6, 10)
    await expectAbove('events_behind', 0)
    await expectAbove('event_log_unconfirmed_seconds', 0)
  })
  await eventually(async () => expect(await valueOf('events_behind')).toBe(0))

  await consumer.stop()
  await change('acct_a', 11, 15)
  await eventually(async () => expect(await producer.sql`select from outbox`).toHaveLength(0))
  const filled = await valueOf('events_filled_total')
  const connection = await connect({ servers: nats.url })
  await (await connection.jetstreamManager()).streams.purge('LICENSING_EVENTS')
  await connection.close()
  await consumer.start()
  await expectAbove('events_filled_total', filled)
  await eventually(async () => expect(await given.consumed()).toEqual({ acct_a: upTo(15) }))

  // The relay numbers events one replica at a time.
  await transaction(producer.sql, async (tx) => {
    await tx`select from event_log_state for update`
    await change('acct_a', 16, 20)
    await expectAbove('outbox_oldest_seconds', 0)
  })
  await eventually(async () => expect(await valueOf('outbox_oldest_seconds')).toBe(0))
})
