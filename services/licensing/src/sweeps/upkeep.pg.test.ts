import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import { givenLicence } from '../../test/makers.ts'
import { startUpkeep } from './upkeep.ts'

test('slots that nothing keeps any more are freed, in the background by any replica', async () => {
  await using harness = await startHarness()
  const { sql } = harness
  const { id: licenceId } = await givenLicence(harness, { maxActivations: 1_500 })
  await sql`
    insert into activations (id, account_id, application_id, licence_id, fingerprint, host, product_version, held_until)
    select 'act_' || n, ${harness.accountId}, ${harness.applicationId}, ${licenceId}, n, 'host', '1',
      case when n <= 1200 then now() - interval '1 hour' when n = 1201 then now() + interval '1 hour' end
    from generate_series(1, 1202) as n`
  const options = { sql, change: harness.deps.change, tokenLifeSeconds: 60, log: harness.deps.log }
  const replicas = [startUpkeep(options), startUpkeep(options)]
  await eventually(async () => {
    const left = await sql<{ id: string }[]>`select id from activations order by 1`
    expect(left.map(({ id }) => id)).toEqual(['act_1201', 'act_1202'])
  })
  await Promise.all(replicas.map((replica) => replica.stop()))
})
