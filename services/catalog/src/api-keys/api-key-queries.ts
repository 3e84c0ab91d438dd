import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import { rowsOf } from '@licensing/database/row-queries'
import type { Scope } from '@licensing/proto/closed-sets'

export interface ApiKeyRow {
  id: string
  account_id: string
  application_id: string | null
  name: string
  scopes: Scope[]
  last_four: string
  created_at: Date
  last_used_at: Date | null
  revoked_at: Date | null
}

/** The account that a key must belong to; `any account` for the operator, who has only the id of the key. */
export type KeyOwner = { accountId: string } | 'any account'

const ownedBy = (sql: Sql, owner: KeyOwner) =>
  owner === 'any account' ? sql`` : sql`and account_id = ${owner.accountId}`

const columns = (sql: Sql) =>
  sql`id, account_id, application_id, name, scopes, last_four, created_at, last_used_at, revoked_at`

export async function insertKey(
  sql: Sql,
  key: {
    id: string
    accountId: string
    applicationId: string | null
    name: string
    hash: Buffer
    lastFour: string
    scopes: Scope[]
  },
): Promise<ApiKeyRow> {
  const [row] = await sql<ApiKeyRow[]>`
    insert into api_keys (id, account_id, application_id, name, key_hash, last_four, scopes)
    values (${key.id}, ${key.accountId}, ${key.applicationId}, ${key.name}, ${key.hash}, ${key.lastFour},
      ${key.scopes})
    returning ${columns(sql)}`
  return row!
}

export async function countKeysInForce(sql: Sql, accountId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from api_keys where account_id = ${accountId} and revoked_at is null`
  return row!.count
}

/** Includes revoked keys. */
export async function findKeyByHash(
  sql: Sql,
  hash: Uint8Array,
): Promise<(ApiKeyRow & { key_hash: Buffer }) | undefined> {
  const [row] = await sql<(ApiKeyRow & { key_hash: Buffer })[]>`
    select ${columns(sql)}, key_hash from api_keys where key_hash = ${Buffer.from(hash)}`
  return row
}

/** The keys with these hashes, in hexadecimal, that are not revoked. */
export async function findKeysByHash(
  sql: Sql,
  hashes: string[],
): Promise<(ApiKeyRow & { key_hash: Buffer })[]> {
  return sql<(ApiKeyRow & { key_hash: Buffer })[]>`
    select ${columns(sql)}, key_hash from api_keys
    where key_hash = any(array(select decode(hash, 'hex') from unnest(${hashes}::text[]) as hash))
      and revoked_at is null`
}

export async function findKey(sql: Sql, accountId: string, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await sql<ApiKeyRow[]>`
    select ${columns(sql)} from api_keys where id = ${id} and account_id = ${accountId}`
  return row
}

export async function listKeyRows(sql: Sql, accountId: string, page: PageRequest): Promise<ApiKeyRow[]> {
  return sql<ApiKeyRow[]>`
    select ${columns(sql)} from api_keys
    where account_id = ${accountId} ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}

/** A key. Other transactions cannot revoke it until this one ends. */
export async function lockKey(tx: Sql, owner: KeyOwner, id: string): Promise<ApiKeyRow | undefined> {
  const [row] = await tx<ApiKeyRow[]>`
    select ${columns(tx)} from api_keys where id = ${id} ${ownedBy(tx, owner)} for no key update`
  return row
}

export async function revokeKeyRow(tx: Sql, id: string): Promise<ApiKeyRow> {
  const [row] = await tx<ApiKeyRow[]>`
    update api_keys set revoked_at = now() where id = ${id} returning ${columns(tx)}`
  return row!
}

/** The names of keys, also of revoked ones. */
export async function namesOfKeys(
  sql: Sql,
  accountId: string,
  ids: string[],
): Promise<{ id: string; name: string }[]> {
  return sql<{ id: string; name: string }[]>`
    select id, name from api_keys where account_id = ${accountId} and id = any(${ids})`
}

/** Moves `last_used_at` forward. Locks rows in the order of ids, so that replicas cannot deadlock. */
export async function recordKeyUse(sql: Sql, uses: Map<string, Date>): Promise<void> {
  const rows = [...uses].map(([id, at]) => ({ id, at }))
  await sql`
    with used as (
      select k.id, u.at
      from api_keys k
      join ${rowsOf(sql, { id: 'text', at: 'timestamptz' }, rows)} u on u.id = k.id
      order by k.id
      for no key update of k
    )
    update api_keys k set last_used_at = greatest(k.last_used_at, used.at) from used where k.id = used.id`
}
