import type { Sql } from '@licensing/database/connect'
import { inOrderOf, insertRows, rowsOf } from '@licensing/database/row-queries'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { payable } from '../lifecycle/licence.ts'

/** A customer of an application. */
export interface Customer {
  accountId: string
  applicationId: string
  externalRef: string
}

/** Locks customers, so that two payments of one customer do not both create a licence. */
export async function lockCustomers(sql: Sql, customers: Customer[]): Promise<void> {
  await sql`
    select pg_advisory_xact_lock(hashtextextended(customer, 0)) from (
      select distinct customer
      from unnest(${customers.map((one) => `${one.applicationId} ${one.externalRef}`)}::text[]) as customer
      order by customer offset 0
    ) as ordered`
}

export interface PurchaseName {
  accountId: string
  applicationId: string
  purchaseRef: string
}

/** The licence that a purchase provisioned. */
export interface Provision {
  licence_id: string
  /** Whether it created the licence. */
  created: boolean
}

/** The licences that these purchases provisioned, in the order of `names`. */
export async function findProvisions(sql: Sql, names: PurchaseName[]): Promise<(Provision | undefined)[]> {
  const columns = { account_id: 'text', application_id: 'text', purchase_ref: 'text' } as const
  const given = names.map(({ accountId: account_id, applicationId: application_id, purchaseRef }) => {
    return { account_id, application_id, purchase_ref: purchaseRef }
  })
  const rows = await sql<(Provision & { ordinality: bigint })[]>`
    select name.ordinality, p.licence_id, p.created
    from ${rowsOf(sql, columns, given)} name
    join provisions p on p.application_id = name.application_id and p.payment_ref = name.purchase_ref
    join licences l on l.id = p.licence_id and l.account_id = name.account_id`
  return inOrderOf(names, rows)
}

/** The newest licence of each customer that a payment can change, in the order of `customers`. */
export async function findNewestLicences(sql: Sql, customers: Customer[]): Promise<(string | undefined)[]> {
  const columns = { account_id: 'text', application_id: 'text', external_ref: 'text' } as const
  const given = customers.map(({ accountId: account_id, applicationId: application_id, externalRef }) => {
    return { account_id, application_id, external_ref: externalRef }
  })
  const rows = await sql<{ ordinality: bigint; id: string }[]>`
    select customer.ordinality, l.id
    from ${rowsOf(sql, columns, given)} customer
    cross join lateral (
      select id from licences
      where application_id = customer.application_id and account_id = customer.account_id
        and external_ref = customer.external_ref and ${statusIn(sql, payable)}
      order by id desc limit 1
    ) l`
  return inOrderOf(customers, rows).map((row) => row?.id)
}

/** A payment that provisioned a licence. */
export interface NewProvision extends Provision {
  application_id: string
  payment_ref: string
}

export async function insertProvisions(sql: Sql, provisions: NewProvision[]): Promise<void> {
  await insertRows(sql, 'provisions', provisions)
}
