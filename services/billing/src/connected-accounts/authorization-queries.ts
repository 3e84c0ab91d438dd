import type { Sql, Transaction } from '@licensing/database/connect'

export interface NewAuthorization {
  stateHash: Buffer
  accountId: string
}

// The most open authorizations of an account. A further authorization ends the earliest one.
const maxOpen = 20

/** A state is valid for 15 minutes, and then the confirmation of its consent for another 15. */
export async function insertAuthorization(
  sql: Sql,
  { stateHash, accountId }: NewAuthorization,
): Promise<void> {
  await sql`
    delete from processor_authorizations where expires_at < now() or state_hash in (
      select state_hash from processor_authorizations where account_id = ${accountId}
      order by expires_at desc offset ${maxOpen - 1}
    )`
  await sql`
    insert into processor_authorizations (state_hash, account_id, expires_at)
    values (${stateHash}, ${accountId}, now() + interval '15 minutes')`
}

/** Uses a state. @returns the account that began; undefined if it was used before or has expired */
export async function consumeState(
  sql: Sql,
  stateHash: Buffer,
  browserHash: Buffer,
): Promise<string | undefined> {
  const [row] = await sql<{ account_id: string }[]>`
    update processor_authorizations set browser_hash = ${browserHash}
    where state_hash = ${stateHash} and browser_hash is null and expires_at > now() returning account_id`
  return row?.account_id
}

/** Lets the same browser use the same state again, because a service was unavailable. */
export async function releaseState(sql: Sql, stateHash: Buffer, browserHash: Buffer): Promise<void> {
  await sql`
    update processor_authorizations set browser_hash = null
    where state_hash = ${stateHash} and browser_hash = ${browserHash} and merchant is null`
}

export async function writeConsent(
  sql: Sql,
  stateHash: Buffer,
  { merchant, confirmationHash }: { merchant: string; confirmationHash: Buffer },
): Promise<void> {
  await sql`
    update processor_authorizations set
      merchant = ${merchant}, confirmation_hash = ${confirmationHash}, expires_at = now() + interval '15 minutes'
    where state_hash = ${stateHash}`
}

export interface Consent {
  account_id: string
  merchant: string
}

export async function findConsent(
  sql: Sql,
  confirmationHash: Buffer,
  browserHash: Buffer,
): Promise<Consent | undefined> {
  const [row] = await sql<Consent[]>`
    select account_id, merchant from processor_authorizations
    where confirmation_hash = ${confirmationHash} and browser_hash = ${browserHash} and expires_at > now()`
  return row
}

/** @returns false if it was used before */
export async function deleteConsent(tx: Transaction, confirmationHash: Buffer): Promise<boolean> {
  const taken = await tx`
    delete from processor_authorizations
    where confirmation_hash = ${confirmationHash} and expires_at > now()`
  return taken.count > 0
}
