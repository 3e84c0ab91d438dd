import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import { startUpkeep } from './upkeep.ts'

test('freed places that no longer count are deleted in the background by any replica', async () => {
  await using harness = await startHarness()
  const { sql } = harness
  await sql`
    insert into freed_places (activation_id, licence_id, fingerprint, takes_place, freed_at, token_ends_at)
    select 'act_' || n, 'lic_1', n, n % 2 = 0, now() - interval '2 days', now() - interval '1 hour'
    from generate_series(1, 5000) as n`
  await sql`
    insert into freed_places (activation_id, licence_id, fingerprint, takes_place, freed_at, token_ends_at)
    values ('act_today', 'lic_1', 'a', false, now(), now() - interval '1 hour'),
      ('act_held', 'lic_1', 'b', true, now() - interval '2 days', now() + interval '1 hour')`
  const options = { sql, change: harness.deps.change, tokenLifeSeconds: 60, log: harness.deps.log }
  const replicas = [startUpkeep(options), startUpkeep(options)]
  await eventually(async () => {
    const left = await sql<{ id: string }[]>`select activation_id as id from freed_places order by 1`
    expect(left.map(({ id }) => id)).toEqual(['act_held', 'act_today'])
  })
  await Promise.all(replicas.map((replica) => replica.stop()))
})
