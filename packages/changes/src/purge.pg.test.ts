import { createLogger } from '@licensing/process/log'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startPurge } from './purge.ts'
import { deleteOldRecords } from './record-queries.ts'
import { givenRepeatable } from './testing/given-repeatable.ts'

test('only records older than 24 hours are deleted, in batches of a bounded size', async () => {
  await using given = await givenRepeatable()
  await given.sql`
    insert into idempotency_keys (account_id, path, key, body_hash, answer, created_at)
    select 'acct_1', '/v1/things', n::text, '\\x00', '', now() - interval '24 hours' - n * interval '1 second'
    from generate_series(1, 2500) as n`
  await given.call({ key: 'recent' })
  expect(await deleteOldRecords(given.sql, 100)).toBe(100)
  const purge = startPurge({ sql: given.sql, log: createLogger('test', 'silent') })
  await eventually(async () => expect(await given.records()).toHaveLength(1))
  await purge.stop()
  expect(await given.call({ key: 'recent' })).toMatchObject({ replayed: true })
})
