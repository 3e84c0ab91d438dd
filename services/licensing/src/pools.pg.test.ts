import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { findActivations, findLicencesOfKeys } from './activations/activation-queries.ts'
import { newLicenceKey } from './lifecycle/licence-key.ts'
import { licensingMigrations } from './migrations.ts'
import { connectForKeys } from './pools.ts'

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
