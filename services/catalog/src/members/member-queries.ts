import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import type { MemberRole } from '@licensing/proto/closed-sets'

export interface MemberRow {
  id: string
  account_id: string
  application_id: string | null
  email: string
  role: MemberRole
  name: string | null
  created_at: Date
  last_sign_in_at: Date | null
  removed_at: Date | null
}

const columns = (sql: Sql) =>
  sql`id, account_id, application_id, email, role, name, created_at, last_sign_in_at, removed_at`

export async function insertMember(
  sql: Sql,
  member: { id: string; accountId: string; applicationId: string | null; email: string; role: MemberRole },
): Promise<MemberRow> {
  const [row] = await sql<MemberRow[]>`
    insert into members (id, account_id, application_id, email, role)
    values (${member.id}, ${member.accountId}, ${member.applicationId}, ${member.email}, ${member.role})
    returning ${columns(sql)}`
  return row!
}

/** How many members of an account are not removed, and how many of them are owners. */
export async function countMembers(
  sql: Sql,
  accountId: string,
): Promise<{ members: number; owners: number }> {
  const [row] = await sql<{ members: number; owners: number }[]>`
    select count(*)::int as members, count(*) filter (where role = 'owner')::int as owners
    from members where account_id = ${accountId} and removed_at is null`
  return row!
}

/** Includes removed members. */
export async function findMember(sql: Sql, accountId: string, id: string): Promise<MemberRow | undefined> {
  const [row] = await sql<MemberRow[]>`
    select ${columns(sql)} from members where id = ${id} and account_id = ${accountId}`
  return row
}

/** A member of any account who is not removed. */
export async function findPresentMember(sql: Sql, id: string): Promise<MemberRow | undefined> {
  const [row] = await sql<MemberRow[]>`
    select ${columns(sql)} from members where id = ${id} and removed_at is null`
  return row
}

export async function listMemberRows(sql: Sql, accountId: string, page: PageRequest): Promise<MemberRow[]> {
  return sql<MemberRow[]>`
    select ${columns(sql)} from members
    where account_id = ${accountId} ${page.beforeId === '' ? sql`` : sql`and id < ${page.beforeId}`}
    order by id desc limit ${rowsFor(page.limit)}`
}

export async function updateRole(sql: Sql, id: string, role: MemberRole): Promise<MemberRow> {
  const [row] = await sql<MemberRow[]>`
    update members set role = ${role} where id = ${id} returning ${columns(sql)}`
  return row!
}

export async function removeMemberRow(sql: Sql, id: string): Promise<MemberRow> {
  const [row] = await sql<MemberRow[]>`
    update members set removed_at = now() where id = ${id} returning ${columns(sql)}`
  return row!
}

export interface PersonRow {
  issuer: string
  subject: string
  /** Null if the identity provider does not call it verified. */
  email: string | null
  name: string | null
}

/** A member that is bound to the person, or an unbound one with the person's address. */
const isMemberOf = (sql: Sql, { issuer, subject, email }: PersonRow) => sql`
  m.removed_at is null and (
    (m.issuer = ${issuer} and m.subject = ${subject})
    or (m.issuer is null and lower(m.email collate "C") = lower(${email} collate "C"))
  )`

/** The members that a person can be: at most one of each account, the bound one. */
export async function listMembersOfPerson(
  sql: Sql,
  person: PersonRow,
  limit: number,
): Promise<{ id: string; account_name: string }[]> {
  return sql<{ id: string; account_name: string }[]>`
    select id, account_name from (
      select distinct on (m.account_id) m.id, a.name as account_name
      from members m join accounts a on a.id = m.account_id
      where ${isMemberOf(sql, person)}
      order by m.account_id, m.issuer is null
    ) as one order by account_name, id limit ${limit}`
}

/**
 * Binds a person to a member that is not bound to another. The name follows the identity provider, the address does not.
 *
 * @returns undefined if the member is not the person's
 */
export async function bindPerson(sql: Sql, id: string, person: PersonRow): Promise<MemberRow | undefined> {
  const [row] = await sql<MemberRow[]>`
    update members m set issuer = ${person.issuer}, subject = ${person.subject},
      name = coalesce(${person.name}, name), last_sign_in_at = now()
    where id = ${id} and ${isMemberOf(sql, person)}
    returning ${columns(sql)}`
  return row
}

/**
 * Uses a state up. Old ones are deleted, a few with each call.
 *
 * @returns false if it was used before
 */
export async function insertUsedState(sql: Sql, stateHash: Uint8Array): Promise<boolean> {
  const { count } = await sql`
    with old as (
      select state_hash from used_sign_in_states where used_at < now() - interval '1 hour'
      order by used_at limit 10 for update skip locked
    ), deleted as (
      delete from used_sign_in_states where state_hash in (select state_hash from old)
    )
    insert into used_sign_in_states (state_hash) values (${Buffer.from(stateHash)}) on conflict do nothing`
  return count > 0
}

/** The names of members, or their addresses before their first sign-in. */
export async function namesOfMembers(
  sql: Sql,
  accountId: string,
  ids: string[],
): Promise<{ id: string; name: string }[]> {
  return sql<{ id: string; name: string }[]>`
    select id, coalesce(name, email) as name from members
    where account_id = ${accountId} and id = any(${ids})`
}
