import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled } from '../../test/shop.ts'
import { act, alertsOf, givenSubscribed, monthly } from '../../test/subscribed.ts'
import type { EffectRow } from './effect-queries.ts'
import { recordResults } from './record-results.ts'

const harness = await sharedHarness()

test('results that are recorded again, because the answer to their commit was lost, raise no second alert', async () => {
  const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
  const { vendor, licenceId, session } = customer
  await harness.licensing.revokeLicence({
    accountId: vendor.accountId,
    licenceId,
    actor: 'key_of_the_vendor',
  })
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  await eventually(() => expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence']))

  const effects = await harness.sql<EffectRow[]>`
    select position, purchase_ref, account_id, application_id, kind, cause, refund_id from purchase_effects
    where purchase_ref = ${session.id}`
  const result = { applied: { licenceId, planId: undefined, status: 'revoked', epoch: undefined } }
  const sent = effects.map((effect) => ({ effect, result }))
  const leased = [{ purchase_ref: session.id, attempts: 0, is_late: false }]
  await harness.deps.change((tx) => recordResults(tx, leased, sent))
  await handled(harness, vendor)
  expect(alertsOf(harness, vendor)).toEqual(['renewal_without_licence'])
})
