import type { Sql } from '@licensing/database/connect'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'

/**
 * Whether a later purchase has taken the licence over: then it no longer hangs on this session's subscription, and the
 * end or the failures of that one must not take away what the customer pays for now.
 */
export async function isSuperseded(sql: Sql, session: SessionRow): Promise<boolean> {
  const [row] = await sql<{ superseded: boolean }[]>`
    select exists (
      select 1 from checkout_sessions own join checkout_sessions later
        on later.licence_id = own.licence_id and later.id <> own.id and later.provisioned_at > own.provisioned_at
      where own.id = ${session.id}
    ) or exists (
      select 1 from checkout_sessions own join sale_events later
        on later.licence_id = own.licence_id and later.provisioned_at > own.provisioned_at
      where own.id = ${session.id}
    ) as superseded`
  return row!.superseded
}
