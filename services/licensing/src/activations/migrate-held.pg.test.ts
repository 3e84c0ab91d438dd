import { newId } from '@licensing/database/ids'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import { givenLicence, givenPlan, itemOf } from '../../test/makers.ts'
import { activate } from '../../test/products.ts'

const harness = await forFile(startHarness)

test('exchanges of legacy keys that wait for an archive occupy no connections of other accounts', async () => {
  const { licensing, products, accountId, applicationId, deps } = harness
  const plan = await givenPlan(harness)
  const keys = Array.from({ length: 60 }, (_, at) => `old-${at}`)
  const items = keys.map((legacyKey) => itemOf({ legacyKey, planId: plan.id }))
  await licensing.importLicences({ accountId, applicationId, actor: 'key_1', items, dryRun: false })
  const neighbour = { ...harness, accountId: newId('acct'), applicationId: newId('app') }
  const elsewhere = await givenLicence(neighbour, { planId: (await givenPlan(neighbour)).id })

  const archive = await deps.lists.reserve()
  await archive`begin`
  await archive`select from licences where plan_id = ${plan.id} for update`
  const asked = keys.map((legacyKey) => products.migrateLegacyKey({ applicationId, legacyKey }))
  await eventually(async () => expect(await lockWaits(deps.lists)).toBeGreaterThan(0))
  // Before the calls time out: two of them try again at a time.
  await eventually(async () => expect(await lockWaits(deps.lists)).toBeLessThanOrEqual(3), {
    timeoutMs: 3_000,
  })
  await activate(products, elsewhere)
  await archive`commit`
  archive.release()
  for (const outcome of await Promise.allSettled(asked)) {
    // On a slow machine they may have waited for too long.
    if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'unavailable' })
  }
  const exchanged = await products.migrateLegacyKey({ applicationId, legacyKey: keys[0]! })
  const history = await harness.sql`
    select from licence_history where licence_id = ${exchanged.licenceId} and type = 'migrated'`
  expect(history).toHaveLength(1)
})
