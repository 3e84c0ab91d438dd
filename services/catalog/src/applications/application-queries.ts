import type { Sql, Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import { notFound } from '../refusals.ts'
import type { CustomerPageSettings } from './customer-page.ts'

export interface ApplicationRow {
  id: string
  account_id: string
  name: string
  expiring_notice_days: number
  /** The fields that the vendor has set. */
  customer_page: Partial<CustomerPageSettings>
  created_at: Date
}

const columns = (sql: Sql) => sql`id, account_id, name, expiring_notice_days, customer_page, created_at`

export async function insertApplication(
  sql: Sql,
  application: { id: string; accountId: string; name: string },
): Promise<ApplicationRow> {
  const [row] = await sql<ApplicationRow[]>`
    insert into applications (id, account_id, name)
    values (${application.id}, ${application.accountId}, ${application.name})
    returning ${columns(sql)}`
  return row!
}

interface ApplicationChange {
  name: string | undefined
  expiringNoticeDays: number | undefined
  /** The fields that the vendor has set. */
  customerPage: Partial<CustomerPageSettings> | undefined
}

/** Writes the fields that are given. The transaction has locked the application. */
export async function updateApplicationRow(
  sql: Sql,
  id: string,
  { name, expiringNoticeDays, customerPage }: ApplicationChange,
): Promise<ApplicationRow> {
  const [row] = await sql<ApplicationRow[]>`
    update applications set name = coalesce(${name ?? null}, name),
      expiring_notice_days = coalesce(${expiringNoticeDays ?? null}, expiring_notice_days),
      customer_page = coalesce(${customerPage ? JSON.stringify(customerPage) : null}::text::jsonb, customer_page)
    where id = ${id} returning ${columns(sql)}`
  return row!
}

/** The applications of an account; undefined if there is no such account. */
export async function findApplicationIds(sql: Sql, accountId: string): Promise<string[] | undefined> {
  const [row] = await sql<{ ids: string[] }[]>`
    select array(select id from applications where account_id = ${accountId} order by id) as ids
    from accounts where id = ${accountId}`
  return row?.ids
}

export async function countApplications(sql: Sql, accountId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from applications where account_id = ${accountId}`
  return row!.count
}

/** An application of the account. */
export async function findApplication(
  sql: Sql,
  accountId: string,
  id: string,
): Promise<ApplicationRow | undefined> {
  if (!isId('app', id)) return undefined
  const [row] = await sql<ApplicationRow[]>`
    select ${columns(sql)} from applications
    where id = ${id} and account_id = ${accountId}`
  return row
}

/** An application of any account. Only for finding its owner, and for the page of its customers. */
export async function findApplicationOfAnyAccount(sql: Sql, id: string): Promise<ApplicationRow | undefined> {
  if (!isId('app', id)) return undefined
  const [row] = await sql<ApplicationRow[]>`select ${columns(sql)} from applications where id = ${id}`
  return row
}

/** @throws ServiceError `not_found` if the account has no such application */
export async function requireApplication(sql: Sql, accountId: string, id: string): Promise<void> {
  if (!(await findApplication(sql, accountId, id))) throw notFound('application', id)
}

/**
 * Takes the lock under which definitions and plans of an application change (see the migration). It does not block inserts
 * of rows that refer to the application.
 *
 * @throws ServiceError `not_found` if the account has no such application
 */
export async function lockApplication(
  tx: Transaction,
  accountId: string,
  id: string,
): Promise<ApplicationRow> {
  const [row] = isId('app', id)
    ? await tx<ApplicationRow[]>`
        select ${columns(tx)} from applications
        where id = ${id} and account_id = ${accountId} for no key update`
    : []
  if (!row) throw notFound('application', id)
  return row
}

export async function listApplicationRows(
  sql: Sql,
  accountId: string,
  page: PageRequest,
  onlyId: string | undefined,
): Promise<ApplicationRow[]> {
  return sql<ApplicationRow[]>`
    select ${columns(sql)} from applications
    where account_id = ${accountId}
      ${onlyId === undefined ? sql`` : sql`and id = ${onlyId}`}
      ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}
