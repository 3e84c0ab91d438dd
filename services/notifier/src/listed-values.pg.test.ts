import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { closedSets } from '@licensing/proto/closed-sets'
import type { DeliveryStatus, EndpointStatus } from '@licensing/proto/closed-sets'
import { createTestDatabase } from '@licensing/test-support/database'
import { listedValues } from '@licensing/test-support/listed-values'
import { expect, test } from 'vitest'

test('the values that the database’s definitions list are those of the closed sets', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 1 })
  try {
    const path = new URL('../migrations', import.meta.url).pathname
    await migrate(sql, [{ name: 'notifier', path }])
    expect(await listedValues((statement) => sql.unsafe(statement))).toEqual({
      deliveries_status_check: closedSets.deliveryStatus.toSorted(),
      // Which deliveries are waiting to be tried again.
      deliveries_failing: ['pending' satisfies DeliveryStatus],
      endpoints_status_check: closedSets.endpointStatus.toSorted(),
      endpoints_disabled_reason_check: closedSets.disabledReason.toSorted(),
      // Which endpoints have a time and a reason.
      endpoints_check: ['disabled' satisfies EndpointStatus],
    })
  } finally {
    await sql.end({ timeout: 5 })
  }
})
