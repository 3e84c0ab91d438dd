import type { IdPrefix } from '@licensing/database/ids'
import { cellTables } from '@licensing/moves/account-tables'
import { closedSets } from '@licensing/proto/closed-sets'
import type { FeeKind, PurchaseEffectKind } from '@licensing/proto/closed-sets'
import { listedValues, unlistedTables } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { expect, test } from 'vitest'
import { givenTables } from '../test/tables.ts'
import { effectStates } from './effects/effect.ts'
import type { EffectState } from './effects/effect.ts'
import { chargeStates } from './payments/payment-queries.ts'
import { questionKinds } from './queues/queue-queries.ts'
import { accountTables, otherTables } from './tables.ts'

test('the values listed in definitions of the database equal the closed sets', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
    checkout_sessions_mode_check: closedSets.priceMode.toSorted(),
    checkout_sessions_status_check: closedSets.checkoutStatus.toSorted(),
    fee_entries_kind_check: closedSets.feeKind.toSorted(),
    // Only a credit is negative.
    fee_entries_check: ['credit' satisfies FeeKind],
    // These indexes contain rows whose id does not match their time.
    ...Object.fromEntries(
      Object.entries({ payments: 'pay', refunds: 'rfd', sale_events: 'sale' } satisfies Record<
        string,
        IdPrefix
      >).flatMap(([table, prefix]) => [
        [`${table}_ahead`, [prefix]],
        [`${table}_late`, [prefix]],
      ]),
    ),
    payments_charge_state_check: chargeStates.toSorted(),
    prices_mode_check: closedSets.priceMode.toSorted(),
    processor_questions_kind_check: questionKinds.toSorted(),
    purchase_effects_state_check: effectStates.toSorted(),
    purchase_effects_kind_check: closedSets.purchaseEffect.toSorted(),
    // This index contains effects that may have to be sent again.
    purchase_effects_done: ['done' satisfies EffectState],
    // This index contains paid purchases that were not sent.
    purchase_effects_unsent: ['paid' satisfies PurchaseEffectKind, 'waiting' satisfies EffectState],
    // This index contains all effects except those that are done.
    purchase_effects_waiting: ['done' satisfies EffectState],
    refunds_kind_check: closedSets.refundKind.toSorted(),
    sale_events_status_check: closedSets.saleStatus.toSorted(),
    sale_facts_kind_check: closedSets.saleFactKind.toSorted(),
  })
})

test('every table and every column is in use', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  expect(await unusedInDatabase('billing', (statement) => sql.unsafe(statement))).toEqual([])
})

test('each table moves with the accounts or belongs to the cell', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  // Billing consumes no events.
  const ofCell = cellTables.filter((name) => name !== 'consumer_positions' && name !== 'dead_letters')
  const listed = [...accountTables.map(({ table }) => table), ...ofCell, ...otherTables]
  expect(await unlistedTables((statement) => sql.unsafe(statement), listed)).toEqual([])
})
