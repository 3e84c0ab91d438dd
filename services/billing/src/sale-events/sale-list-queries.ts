import type { Sql } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import type { SaleStatus } from '@licensing/proto/closed-sets'
import type { Period } from '../period.ts'
import { happenedIn } from '../period-queries.ts'

interface SaleEventFilter extends Period {
  accountId: string
  applicationId: string
  status?: string | undefined
}

export interface ListedSale {
  id: string
  sale_id: string
  external_ref: string
  plan_id: string
  amount: bigint
  currency: string
  occurred_at: Date
  status: SaleStatus
  licence_id: string | null
  failure_reason: string | null
}

/** A page of sale events in order of creation, newest first. */
export async function listSaleRows(
  sql: Sql,
  filter: SaleEventFilter,
  page: PageRequest,
): Promise<ListedSale[]> {
  const { accountId, applicationId, status } = filter
  const rows = rowsFor(page.limit)
  const columns = { prefix: 'sale', id: sql`id`, time: sql`occurred_at` } as const
  return happenedIn(
    sql,
    columns,
    filter,
    (within) => sql<ListedSale[]>`
      select id, sale_id, external_ref, plan_id, amount, currency, occurred_at, status, licence_id, failure_reason
      from sale_events
      where application_id = ${applicationId} and account_id = ${accountId} ${within}
        ${status === undefined ? sql`` : sql`and status = ${status}`}
        ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
      order by id desc limit ${rows}`,
    rows,
  )
}
