import type { Sql } from '@licensing/database/connect'
import type { Received } from '../consumer-options.ts'

/** Which of these events have an effect already. */
export async function findEffects(tx: Sql, events: Received[]): Promise<Set<string>> {
  const ids = events.map(({ event }) => event.id)
  const rows = await tx<{ event_id: string }[]>`select event_id from effects where event_id = any(${ids})`
  return new Set(rows.map((row) => row.event_id))
}

/** The effect that tests look at: one row for each event consumed, in the order of consumption. */
export async function recordEffects(tx: Sql, events: Received[]): Promise<void> {
  for (const { event } of events) {
    if (event.payload.case !== 'licenceSuspended') throw new Error('poison')
    await tx`
      insert into effects (event_id, account_id, number)
      values (${event.id}, ${event.accountId}, ${Number(event.payload.value.licenceId)})`
  }
}
