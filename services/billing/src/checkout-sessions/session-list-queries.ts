import type { Sql } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import type { Period } from '../period.ts'
import { createdIn } from '../period-queries.ts'
import type { ListedSession } from './session.ts'

interface SessionFilter extends Period {
  accountId: string
  applicationId: string
  status?: string | undefined
  externalRef?: string | undefined
}

/** A page of checkout sessions, newest first. */
export async function listSessionRows(
  sql: Sql,
  filter: SessionFilter,
  page: PageRequest,
): Promise<ListedSession[]> {
  const { accountId, applicationId, status, externalRef } = filter
  return sql<ListedSession[]>`
    select id, url, status, plan_id, external_ref, amount, currency, fee_minor, created_at, licence_id,
      failure_reason
    from checkout_sessions
    where application_id = ${applicationId} and account_id = ${accountId}
      ${status === undefined ? sql`` : sql`and status = ${status}`}
      ${externalRef === undefined ? sql`` : sql`and external_ref = ${externalRef}`}
      ${createdIn(sql, 'cs', filter)}
      ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}
