import { closedSets } from '@licensing/proto/closed-sets'
import type { HistoryType, PurchaseEffectKind } from '@licensing/proto/closed-sets'
import { listedValues } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { expect, test } from 'vitest'
import { bulkChanges, expirable, holds, purchaseStates } from '../src/lifecycle/licence.ts'
import { counters } from '../src/application-days/day-queries.ts'
import { byCustomer, byProduct } from '../src/activations/freeing-queries.ts'
import { forFile, startHarness } from './harness.ts'

const harness = await forFile(startHarness)

const renewals = ['renewed' satisfies PurchaseEffectKind]
const freed = ['activation_freed' satisfies HistoryType, byCustomer, byProduct]

test('values in definitions of the database are those of the closed sets and of the lifecycle', async () => {
  expect(await listedValues((statement) => harness.sql.unsafe(statement))).toEqual({
    licences_status_check: closedSets.licenceStatus.toSorted(),
    licences_hold_check: holds.toSorted(),
    licences_purchase_check: purchaseStates.toSorted(),
    plans_status_check: closedSets.planStatus.toSorted(),
    licence_statuses_due: expirable.toSorted(),
    licence_statuses_ending: expirable.toSorted(),
    licence_history_freed: freed,
    entries_stay: freed,
    // The status of licences that are added to the revocation list.
    list_revocation: [bulkChanges.revoke.to],
    purchase_effects_by_end: renewals,
    purchase_effects_by_plan: renewals,
    purchase_effects_by_time: renewals,
    purchase_effects_by_updates: renewals,
  })
})

test('every table and every column is in use', async () => {
  const read = (statement: string) => harness.sql.unsafe(statement)
  expect(await unusedInDatabase('licensing', read, counters)).toEqual([])
})
