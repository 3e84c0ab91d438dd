import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { closedSets } from '@licensing/proto/closed-sets'
import type { DeliveryStatus, EndpointStatus } from '@licensing/proto/closed-sets'
import { createTestDatabase } from '@licensing/test-support/database'
import { listedValues } from '@licensing/test-support/listed-values'
import { unusedInDatabase } from '@licensing/test-support/unused-in-database'
import { expect, test } from 'vitest'
import { failingFrom } from './deliveries/backoff.ts'
import { notifierMigrations } from './migrations.ts'

test('the values listed in definitions of the database equal the closed sets', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    await migrate(sql, notifierMigrations)
    expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
      deliveries_status_check: closedSets.deliveryStatus.toSorted(),
      // The status of deliveries that wait to be tried again.
      deliveries_failing: ['pending' satisfies DeliveryStatus],
      // The status of endpoints that count against the quota.
      endpoints_enabled: ['enabled' satisfies EndpointStatus],
      endpoints_status_check: closedSets.endpointStatus.toSorted(),
      endpoints_disabled_reason_check: closedSets.disabledReason.toSorted(),
      alerts_kind_check: closedSets.alertKind.toSorted(),
      delivery_counts_step_check: ['day', 'hour'],
      // The status of endpoints that have a time and a reason.
      endpoints_check: ['disabled' satisfies EndpointStatus],
    })
  } finally {
    await sql.end({ timeout: 5 })
  }
})

test('the index of failing deliveries begins at the attempt from which an endpoint counts as failing', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    await migrate(sql, notifierMigrations)
    const [index] = await sql<{ definition: string }[]>`
      select pg_get_indexdef('deliveries_failing'::regclass) as definition`
    expect(index!.definition).toContain(`(scheduled_attempts >= ${failingFrom})`)
  } finally {
    await sql.end({ timeout: 5 })
  }
})

test('every table and every column is used', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    await migrate(sql, notifierMigrations)
    expect(await unusedInDatabase('notifier', (statement) => sql.unsafe(statement))).toEqual([])
  } finally {
    await sql.end({ timeout: 5 })
  }
})
