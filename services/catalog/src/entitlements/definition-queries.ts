import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { problemOfKey } from './definition.ts'
import type { DefinitionRow } from './definition.ts'

const columns = (sql: Sql) =>
  sql`d.id, d.application_id, d.key, d.kind, d.display_name, d.default_value, d.created_at`

/** Violates `entitlement_definitions_key` if the key is in use, and `…_kind` if the key had another kind before. */
export async function insertDefinition(
  sql: Sql,
  definition: {
    id: string
    applicationId: string
    key: string
    kind: EntitlementKind
    displayName: string
    default: string
  },
): Promise<DefinitionRow> {
  const { id, applicationId, key, kind, displayName } = definition
  await sql`
    insert into entitlement_keys (application_id, key, kind) values (${applicationId}, ${key}, ${kind})
    on conflict (application_id, key) do nothing`
  const [row] = await sql<DefinitionRow[]>`
    insert into entitlement_definitions as d (id, application_id, key, kind, display_name, default_value)
    values (${id}, ${applicationId}, ${key}, ${kind}, ${displayName}, ${definition.default})
    returning ${columns(sql)}`
  return row!
}

export async function countDefinitions(sql: Sql, applicationId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from entitlement_definitions where application_id = ${applicationId}`
  return row!.count
}

export async function findDefinition(
  sql: Sql,
  accountId: string,
  applicationId: string,
  id: string,
): Promise<DefinitionRow | undefined> {
  const [row] = await sql<DefinitionRow[]>`
    select ${columns(sql)}
    from entitlement_definitions d join applications a on a.id = d.application_id
    where d.id = ${id} and d.application_id = ${applicationId} and a.account_id = ${accountId}`
  return row
}

/** The definitions of these keys. A key may be any text. */
export async function definitionsWithKeys(
  sql: Sql,
  applicationId: string,
  keys: string[],
): Promise<DefinitionRow[]> {
  return sql<DefinitionRow[]>`
    select ${columns(sql)} from entitlement_definitions d
    where d.application_id = ${applicationId}
      and d.key = any(${keys.filter((key) => problemOfKey(key) === undefined)}::text[])`
}

export async function listDefinitionRows(
  sql: Sql,
  accountId: string,
  applicationId: string,
  page: PageRequest,
): Promise<DefinitionRow[]> {
  return sql<DefinitionRow[]>`
    select ${columns(sql)}
    from entitlement_definitions d join applications a on a.id = d.application_id
    where d.application_id = ${applicationId} and a.account_id = ${accountId}
      ${page.beforeId === '' ? sql`` : sql`and d.id < ${page.beforeId}`}
    order by d.id desc limit ${rowsFor(page.limit)}`
}

export async function updateDefinitionRow(
  sql: Sql,
  id: string,
  change: { displayName: string; default: string },
): Promise<DefinitionRow> {
  const [row] = await sql<DefinitionRow[]>`
    update entitlement_definitions d
    set display_name = ${change.displayName}, default_value = ${change.default}
    where d.id = ${id}
    returning ${columns(sql)}`
  return row!
}

/** Deletes a definition, and with it the values that plans set for it. */
export async function deleteDefinitionRow(sql: Sql, applicationId: string, id: string): Promise<boolean> {
  const deleted = await sql`
    delete from entitlement_definitions where id = ${id} and application_id = ${applicationId}`
  return deleted.count === 1
}
