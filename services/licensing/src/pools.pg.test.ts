import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { findActivations, findLicencesOfKeys } from './activations/activation-queries.ts'
import { newLicenceKey } from './lifecycle/licence-key.ts'
import { licensingMigrations } from './tables.ts'
import { connectForKeys, connectPools, createListQueue } from './pools.ts'

test('reads of activations and licence keys are planned once, even for few rows', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'pools', max: 1 })
  await migrate(sql, licensingMigrations)
  const keyed = connectForKeys(sql)
  for (let call = 0; call < 10; call += 1) {
    await findActivations(keyed, [newId('act')])
    await findLicencesOfKeys(keyed, [{ licenceKey: newLicenceKey(), fingerprint: 'machine' }])
  }
  const plans = await keyed`
    select generic_plans::int as once, custom_plans::int as again from pg_prepared_statements
    where statement like '%activations a%' and statement not like '%pg_prepared_statements%'`
  expect(plans).toEqual([
    { once: 10, again: 0 },
    { once: 10, again: 0 },
  ])
  await sql.end()
  await keyed.end()
})

test('an account whose lists take long leaves connections for the lists of others', async () => {
  await using database = await createTestDatabase()
  const { sql, lists } = connectPools({ DATABASE_URL: database.url, DATABASE_CONNECTIONS: 20 })
  const queue = createListQueue(lists)
  const blocking = await sql.reserve()
  await blocking`select pg_advisory_lock(1)`
  const loud = Array.from({ length: 50 }, () =>
    queue.run('loud', () => lists`select pg_advisory_lock_shared(1)`.execute()),
  )
  const [row] = await queue.run('quiet', () => lists`select 'answered' as quiet`.execute())
  expect(row).toEqual({ quiet: 'answered' })
  await blocking`select pg_advisory_unlock(1)`
  await Promise.all(loud)
  blocking.release()
  await Promise.all([sql.end(), lists.end()])
}, 30_000)
