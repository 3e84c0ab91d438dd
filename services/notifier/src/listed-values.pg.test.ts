import { cellTables } from '@licensing/moves/account-tables'
import { closedSets } from '@licensing/proto/closed-sets'
import type { EndpointStatus } from '@licensing/proto/closed-sets'
import { listedValues, unlistedTables } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { afterAll, expect, test } from 'vitest'
import { givenDatabase } from '../test/database.ts'
import { failingFrom } from './endpoints/endpoint.ts'
import { pendingStatuses } from './delivery-states.ts'
import { accountTables } from './tables.ts'

const database = await givenDatabase({ max: 1 })
const { sql } = database
afterAll(() => database[Symbol.asyncDispose]())

test('the values listed in definitions of the database equal the closed sets', async () => {
  expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
    deliveries_status_check: closedSets.deliveryStatus.toSorted(),
    // The status of deliveries that wait to be tried again.
    deliveries_failing: pendingStatuses,
    // The status of endpoints that count against the quota.
    endpoints_enabled: ['enabled' satisfies EndpointStatus],
    endpoints_status_check: closedSets.endpointStatus.toSorted(),
    endpoints_signature_check: closedSets.webhookSignature.toSorted(),
    endpoints_disabled_reason_check: closedSets.disabledReason.toSorted(),
    alerts_kind_check: closedSets.alertKind.toSorted(),
    delivery_counts_step_check: ['day', 'hour'],
    // The status of endpoints that have a time and a reason.
    endpoints_check: ['disabled' satisfies EndpointStatus],
  })
})

test('the index of failing deliveries begins at the first failure, with which an endpoint may be disabled', async () => {
  const [index] = await sql<{ definition: string }[]>`
    select pg_get_indexdef('deliveries_failing'::regclass) as definition`
  expect(index!.definition).toContain('(scheduled_attempts >= 1)')
  expect(failingFrom).toBeGreaterThanOrEqual(1)
})

test('every table and every column is used', async () => {
  expect(await unusedInDatabase('notifier', (statement) => sql.unsafe(statement))).toEqual([])
})

test('each table moves with the accounts or belongs to the cell', async () => {
  const listed = [...accountTables.map(({ table }) => table), ...cellTables]
  expect(await unlistedTables((statement) => sql.unsafe(statement), listed)).toEqual([])
})
