import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { connect } from '@licensing/database/connect'
import { connectNats } from '@licensing/events/connection'
import { createLogger } from '@licensing/process/log'
import { expect, test } from 'vitest'
import { startTestNotifier } from '../../test/notifier.ts'
import { watchEndpointChanges } from './endpoint-changes.ts'

const log = createLogger('test', 'silent')

test('a replica that was suspended, and whose connections were stalled, receives every change that it missed', async () => {
  await using notifier = await startTestNotifier()
  const { host } = new URL(notifier.databaseUrl)
  await using toDatabase = await startFaultyProxy(host)
  await using toNats = await startFaultyProxy(`127.0.0.1:${notifier.natsServer.port}`)
  const url = new URL(notifier.databaseUrl)
  url.host = toDatabase.address
  const sql = connect(url.href, { name: 'replica', max: 2 })
  const nats = await connectNats(notifier.natsServer.urlOf('notifier', toNats.address), 'replica', log)
  const generations = new Map<string, bigint>()
  const news = watchEndpointChanges({
    sql,
    nats,
    log,
    changed: (rows) => rows.forEach(({ id, generation }) => generations.set(id, generation)),
  })
  const endpoint = await notifier.register('https://localhost:9/hook')
  await eventually(() => generations.has(endpoint.id))
  const before = generations.get(endpoint.id)!

  toDatabase.refuse()
  toNats.swallow()
  await notifier.calls.rotateSecret({ ...notifier.of, endpointId: endpoint.id })
  // The replica was suspended for 50 s.
  await notifier.sql`update endpoints set changed_at = changed_at - interval '50 seconds' where id = ${endpoint.id}`
  toNats.flow()
  toDatabase.flow()
  await eventually(() => expect(generations.get(endpoint.id)).toBeGreaterThan(before))
  // The database loses the rotation. The next one is newer than the settings that the replica keeps.
  const lost = generations.get(endpoint.id)!
  await notifier.sql`update endpoints set generation = ${before} where id = ${endpoint.id}`
  await notifier.calls.rotateSecret({ ...notifier.of, endpointId: endpoint.id })
  await eventually(() => expect(generations.get(endpoint.id)).toBeGreaterThan(lost))
  await news.stop()
  await nats.close()
  await sql.end({ timeout: 1 })
})
