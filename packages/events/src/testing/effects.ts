import type { Sql } from '@licensing/database/connect'
import type { Received } from '../consumer-options.ts'

/** The ids of these events that already have an effect. */
export async function findEffects(tx: Sql, events: Received[]): Promise<Set<string>> {
  const ids = events.map(({ event }) => event.id)
  const rows = await tx<{ event_id: string }[]>`select event_id from effects where event_id = any(${ids})`
  return new Set(rows.map((row) => row.event_id))
}

/** Inserts one row for each consumed event, in the order of consumption, which tests read. */
export async function recordEffects(tx: Sql, events: Received[]): Promise<void> {
  for (const { event } of events) {
    if (event.payload.case !== 'licenceSuspended') throw new Error('poison')
    await tx`
      insert into effects (event_id, account_id, number)
      values (${event.id}, ${event.accountId}, ${Number(event.payload.value.licenceId)})`
  }
}
