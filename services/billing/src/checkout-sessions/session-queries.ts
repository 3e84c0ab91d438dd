import type { Sql } from '@licensing/database/connect'
import { rowsFor } from '@licensing/database/page'
import type { PageRequest } from '@licensing/database/page'
import type { CheckoutStatus, PriceMode } from '@licensing/proto/closed-sets'
import type { Metadata } from '@licensing/proto/metadata'
import { createdIn } from '../period-queries.ts'
import type { Period } from '../period-queries.ts'
import { insertRows } from '@licensing/database/row-queries'

export interface SessionRow {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  external_ref: string
  price_id: string
  mode: PriceMode
  period_months: number | null
  updates_months: number | null
  amount: bigint
  currency: string
  fee_minor: bigint
  fee_bps: number
  fee_fixed_minor: bigint
  metadata: Metadata
  status: CheckoutStatus
  licence_id: string | null
  failure_reason: string | null
  merchant: string
  checkout_ref: string | null
  url: string
  paid_amount: bigint | null
  paid_currency: string | null
  paid_at: Date | null
  payment_ref: string | null
  invoice_ref: string | null
  subscription_ref: string | null
  created_at: Date
}

const columns = (sql: Sql) => sql`
  id, account_id, application_id, plan_id, external_ref, price_id, mode, period_months, updates_months, amount,
  currency, fee_minor, fee_bps, fee_fixed_minor, metadata, status, licence_id, failure_reason, merchant, checkout_ref, url,
  paid_amount, paid_currency, paid_at, payment_ref, invoice_ref, subscription_ref, created_at`

/** The columns that a session has before its checkout is opened. The others have their defaults. */
export type NewSession = Omit<
  SessionRow,
  'status' | 'licence_id' | 'failure_reason' | 'url' | 'created_at' | `${string}_ref` | `paid_${string}`
> &
  Pick<SessionRow, 'external_ref'>

export async function insertSession(sql: Sql, session: NewSession): Promise<void> {
  await insertRows(sql, 'checkout_sessions', [session])
}

export async function writeOpened(
  sql: Sql,
  sessionId: string,
  opened: { checkoutRef: string; url: string; amount: bigint; currency: string; feeMinor: bigint },
): Promise<SessionRow> {
  const [row] = await sql<SessionRow[]>`
    update checkout_sessions set checkout_ref = ${opened.checkoutRef}, url = ${opened.url}, amount = ${opened.amount},
      currency = ${opened.currency}, fee_minor = ${opened.feeMinor}
    where id = ${sessionId}
    returning ${columns(sql)}`
  return row!
}

/** Cancels a session whose checkout could not be opened: nobody knows its URL. */
export async function cancelUnopened(sql: Sql, sessionId: string): Promise<void> {
  await sql`
    update checkout_sessions set status = 'canceled'
    where id = ${sessionId} and status = 'open' and checkout_ref is null and paid_at is null`
}

export async function findSession(
  sql: Sql,
  scope: { accountId: string; applicationId: string; sessionId: string },
): Promise<SessionRow | undefined> {
  const [row] = await sql<SessionRow[]>`
    select ${columns(sql)} from checkout_sessions
    where id = ${scope.sessionId} and application_id = ${scope.applicationId} and account_id = ${scope.accountId}`
  return row
}

export async function findSessionsById(sql: Sql, ids: string[]): Promise<SessionRow[]> {
  return sql<SessionRow[]>`select ${columns(sql)} from checkout_sessions where id = any(${ids})`
}

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
): Promise<SessionRow[]> {
  const { accountId, applicationId, status, externalRef } = filter
  return sql<SessionRow[]>`
    select ${columns(sql)} from checkout_sessions
    where application_id = ${applicationId} and account_id = ${accountId}
      ${status === undefined ? sql`` : sql`and status = ${status}`}
      ${externalRef === undefined ? sql`` : sql`and external_ref = ${externalRef}`}
      ${createdIn(sql, 'cs', filter)}
      ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}
