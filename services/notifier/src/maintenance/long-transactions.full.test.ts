import { connect } from '@licensing/database/connect'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'
import { dropPartitions } from '../events/event-partitions.ts'
import { deleteOldDeliveries } from './maintenance.ts'

// Below this, a ratio says more about the machine than about the database.
const floorMs = 40
const rounds = 3
const eventsPerRound = 100
const pauseMs = 20
const backlog = 40_000

test(
  'beside an open backup, a build of an index, a removal of old data and without vacuum, the p99 of deliveries is at most three times as long',
  { timeout: 600_000 },
  async () => {
    await using receiver = await startHttpsReceiver()
    await using notifier = await startTestNotifier()
    await notifier.register(receiver.url())
    let expected = 0
    const happen = async (count: number) => {
      const events = await notifier.happen(count)
      expected += count
      return events
    }
    const arrived = () => receiver.received(expected, 240_000)
    /** The lowest p99 of some rounds, from publication to arrival, in milliseconds: other load of the machine counts least. */
    const p99 = async (what: string) => {
      const found: number[] = []
      for (let round = 0; round < rounds; round += 1) {
        const sentAt = new Map<string, number>()
        for (let at = 0; at < eventsPerRound; at += 1) {
          const startedAt = Date.now()
          const [event] = await happen(1)
          sentAt.set(event!.id, startedAt)
          await pause(pauseMs)
        }
        await arrived()
        const waits = receiver.requests.flatMap(({ headers, arrivedAt }) => {
          const at = sentAt.get(String(headers['webhook-id']))
          return at === undefined ? [] : [arrivedAt - at]
        })
        found.push(waits.toSorted((a, b) => a - b)[Math.ceil(0.99 * waits.length) - 1]!)
      }
      process.stdout.write(`p99 of deliveries ${what}: ${found.join(', ')} ms\n`)
      return Math.min(...found)
    }
    await happen(500)
    await arrived()
    const before = await p99('alone')

    const admin = connect(notifier.databaseUrl, { name: 'admin', max: 5, statementTimeoutMs: 240_000 })
    // As pg_dump does: one snapshot, and a lock of every table.
    const backup = await admin.reserve()
    await backup`set idle_in_transaction_session_timeout = 0`
    await backup`begin isolation level repeatable read`
    const tables = await backup<{ name: string; relkind: string }[]>`
      select oid::regclass::text as name, relkind from pg_class
      where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace`
    await backup.unsafe(`lock table ${tables.map(({ name }) => name).join(', ')} in access share mode`)
    for (const { name, relkind } of tables) {
      if (relkind === 'r') await admin.unsafe(`alter table ${name} set (autovacuum_enabled = off)`)
    }
    for (let done = 0; done < backlog; done += 1_000) {
      await happen(1_000)
      await arrived()
    }
    const slow = [await p99(`beside a transaction of ${backlog} deliveries`)]
    const building = admin.unsafe(
      'create index concurrently of_a_test on deliveries (event_type, created_at, id)',
    )
    slow.push(await p99('beside the build of an index as well'))
    // Last week's partition.
    const dropping = dropPartitions(admin, new Date(), 0)
    const removing = deleteOldDeliveries(admin, new Date())
    slow.push(await p99('beside the removal of old deliveries and payloads as well'))
    await removing
    const [left] = await admin<{ count: number }[]>`select count(*)::int as count from deliveries`
    expect(left!.count).toBeLessThan(1_000)
    await backup`commit`
    backup.release()
    await Promise.all([building, dropping])
    slow.push(await p99('after them, before a vacuum'))
    expect(Math.max(...slow)).toBeLessThan(3 * Math.max(before, floorMs))
    await admin.end()
  },
)
