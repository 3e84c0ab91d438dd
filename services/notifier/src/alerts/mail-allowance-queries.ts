import { hash } from 'node:crypto'
import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'

/** At most `limit` mails in `hours`. */
export interface Allowance {
  key: string
  limit: number
  hours: number
}

/** Limits all mails of an account: alerts and confirmations. */
export const ofAccount = (accountId: string): Allowance => ({ key: accountId, limit: 6, hours: 1 })

/**
 * Limits all mails to an address that is not confirmed, for all accounts together. Letter case and the text after a `+` are
 * ignored, because such addresses usually reach the same mailbox.
 */
export function ofAddress(address: string): Allowance {
  const at = address.lastIndexOf('@')
  const mailbox = `${address.slice(0, at).replace(/(?!^)\+.*/s, '')}${address.slice(at)}`
  return { key: `sha256:${hash('sha256', mailbox.toLowerCase())}`, limit: 5, hours: 24 }
}

class AllowanceExhausted extends Error {
  readonly seconds: number

  constructor(seconds: number) {
    super('the allowance is used up')
    this.seconds = seconds
  }
}

/**
 * Counts a mail that is about to be sent against all of the allowances, or against none.
 *
 * @returns 0, or the seconds until an exhausted allowance admits the next mail
 */
export async function takeAllowances(sql: Database, allowances: Allowance[]): Promise<number> {
  try {
    await transaction(sql, async (tx) => {
      for (const allowance of allowances) {
        if (await take(tx, allowance)) continue
        throw new AllowanceExhausted(await secondsUntilNext(tx, allowance))
      }
    })
    return 0
  } catch (error) {
    if (error instanceof AllowanceExhausted) return error.seconds
    throw error
  }
}

async function take(sql: Sql, { key, limit, hours }: Allowance): Promise<boolean> {
  const within = sql`array(
    select at from unnest(a.mailed) as at
    where at > clock_timestamp() - ${hours}::int * interval '1 hour' order by at)`
  const rows = await sql`
    insert into mail_allowances as a (key, mailed) values (${key}, array[clock_timestamp()])
    on conflict (key) do update set mailed = ${within} || clock_timestamp(), changed_at = clock_timestamp()
    where cardinality(${within}) < ${limit}
    returning 1`
  return rows.length > 0
}

async function secondsUntilNext(sql: Sql, { key, limit, hours }: Allowance): Promise<number> {
  const [row] = await sql<{ seconds: number }[]>`
    select ceil(extract(epoch from
      mailed[cardinality(mailed) - ${limit}::int + 1] + ${hours}::int * interval '1 hour' - clock_timestamp()
    ))::int as seconds
    from mail_allowances where key = ${key}`
  return Math.max(1, row?.seconds ?? 1)
}

/** Reverts `takeAllowances`: the mail was not sent. */
export async function returnAllowances(sql: Sql, allowances: Allowance[]): Promise<void> {
  await sql`
    update mail_allowances set mailed = trim_array(mailed, 1)
    where key = any(${allowances.map(({ key }) => key)}) and cardinality(mailed) > 0`
}

/** Deletes rows that no allowance reads any more. */
export async function deleteOldAllowances(sql: Sql): Promise<void> {
  await sql`delete from mail_allowances where changed_at < clock_timestamp() - interval '25 hours'`
}
