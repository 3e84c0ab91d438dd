import type { Sql, Transaction } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'

/** A confirmation mail that is due. */
export interface DueConfirmation {
  account_id: string
  address: string
  tries: number
}

export interface Confirmation {
  account_id: string
  address: string
}

// The text of the mail contains this number too.
const linkLifeDays = 7
// Setting the same address again sends another mail only after this time.
const resendAfterMinutes = 10
// The pauses between tries double up to ten minutes: about four hours in total.
const maxTries = 30

/** Requests a mail with a link. The link of another address becomes invalid. */
export async function requestConfirmation(
  tx: Transaction,
  accountId: string,
  address: string,
): Promise<void> {
  await tx`
    insert into alert_email_confirmations as c (account_id, address) values (${accountId}, ${address})
    on conflict (account_id) do update set
      address = excluded.address,
      token_hash = case when c.address = excluded.address then c.token_hash end,
      expires_at = case when c.address = excluded.address then c.expires_at end,
      due_at = clock_timestamp(), tries = 0, mailed_at = null
    where c.address <> excluded.address or (
      c.due_at is null
      and coalesce(c.mailed_at < clock_timestamp() - ${resendAfterMinutes}::int * interval '1 minute', true)
    )`
}

export async function deleteConfirmation(tx: Transaction, accountId: string): Promise<void> {
  await tx`delete from alert_email_confirmations where account_id = ${accountId}`
}

/** Takes the next due mail and gives it a new token. For `leaseSeconds` no other replica gets it. */
export async function takeConfirmation(
  sql: Sql,
  tokenHash: Uint8Array,
  leaseSeconds: number,
): Promise<DueConfirmation | undefined> {
  const [row] = await sql<DueConfirmation[]>`
    update alert_email_confirmations set
      token_hash = ${tokenHash},
      expires_at = clock_timestamp() + ${linkLifeDays}::int * interval '1 day',
      due_at = clock_timestamp() + ${leaseSeconds}::int * interval '1 second',
      tries = tries + 1
    where account_id = (
      select account_id from alert_email_confirmations where due_at <= clock_timestamp() and ${stays(sql, 'account_id')}
      order by due_at limit 1 for update skip locked
    )
    returning account_id, address, tries`
  return row
}

/** Records that the mail with this token was sent. */
export async function recordConfirmationMailed(sql: Sql, tokenHash: Uint8Array): Promise<void> {
  await sql`
    update alert_email_confirmations set due_at = null, mailed_at = clock_timestamp()
    where token_hash = ${tokenHash}`
}

/** Schedules another try for a mail that was not sent, unless too many tries have failed. */
export async function postponeConfirmation(sql: Sql, tokenHash: Uint8Array, seconds: number): Promise<void> {
  await sql`
    update alert_email_confirmations
    set due_at = case when tries < ${maxTries}
      then clock_timestamp() + ${seconds}::int * interval '1 second' end
    where token_hash = ${tokenHash}`
}

export async function findConfirmation(sql: Sql, tokenHash: Uint8Array): Promise<Confirmation | undefined> {
  const [row] = await sql<Confirmation[]>`
    select account_id, address from alert_email_confirmations
    where token_hash = ${tokenHash} and expires_at > clock_timestamp()`
  return row
}

/** @returns undefined if the link has been used, replaced or has expired */
export async function useConfirmation(
  tx: Transaction,
  accountId: string,
  tokenHash: Uint8Array,
): Promise<Confirmation | undefined> {
  const [row] = await tx<Confirmation[]>`
    delete from alert_email_confirmations
    where account_id = ${accountId} and token_hash = ${tokenHash} and expires_at > clock_timestamp()
    returning account_id, address`
  return row
}
