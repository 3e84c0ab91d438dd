import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { licenceColumns } from '../lifecycle/licence-queries.ts'
import type { LicenceWithSnapshot } from '../lifecycle/licence-queries.ts'
import type { OverrideRow } from './override.ts'

export type LicenceOverride = OverrideRow & { licence_id: string }

const columns = (sql: Sql) => sql`o.licence_id, o.key, o.kind, o.value, o.ends_on, o.note, o.created_at`

/** Whether the end of an override has passed and is not in the history. */
export async function hasUnrecordedEnds(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ found: boolean }[]>`
    select exists(select from licence_overrides where ends_on <= now() and not end_recorded) as found`
  return row!.found
}

/**
 * Locks licences with overrides whose end has passed and is not in the history, in the order of the ends. Licences that
 * other transactions have locked are skipped: the next sweep finds them.
 *
 * @returns at most `limit`, a licence once for each of these overrides
 */
export async function lockLicencesWithEnds(sql: Sql, limit: number): Promise<LicenceWithSnapshot[]> {
  return sql<LicenceWithSnapshot[]>`
    select ${licenceColumns(sql)}, l.snapshot_id
    from (
      select licence_id from licence_overrides where ends_on <= now() and not end_recorded
      order by ends_on, licence_id offset 0
    ) due cross join lateral (
      select ${licenceColumns(sql)}, l.snapshot_id from licences l
      where l.id = due.licence_id and ${stays(sql, 'l.account_id')} for update skip locked
    ) l
    limit ${limit}`
}

/** Marks ends that have passed, of licences that the transaction has locked. @returns the overrides that have ended */
export async function markEnds(sql: Sql, licenceIds: string[], now: Date): Promise<LicenceOverride[]> {
  return sql<LicenceOverride[]>`
    update licence_overrides o set end_recorded = true
    where o.licence_id = any(${licenceIds}::text[]) and o.ends_on <= ${now} and not o.end_recorded
    returning ${columns(sql)}`
}

/**
 * The overrides of the licence `l` that have not ended, as JSON texts. A join or an aggregate would be slower for licences
 * without overrides.
 */
export const currentOverrides = (sql: Sql) => sql`
  array(
    select json_build_object(
      'key', o.key, 'kind', o.kind, 'value', o.value, 'ends_ms', extract(epoch from o.ends_on) * 1000
    )::text
    from licence_overrides o where o.licence_id = l.id and (o.ends_on is null or o.ends_on > now())
  )`

/** The overrides of licences, sorted by key, including those that have ended. */
export async function findOverrides(sql: Sql, licenceIds: string[]): Promise<LicenceOverride[]> {
  return sql<LicenceOverride[]>`
    select ${columns(sql)} from licence_overrides o
    where o.licence_id = any(${licenceIds}::text[]) order by o.licence_id, o.key`
}

export async function upsertOverride(sql: Sql, override: LicenceOverride): Promise<void> {
  const { licence_id: licenceId, key, kind, value, ends_on: end, note, created_at: createdAt } = override
  await sql`
    insert into licence_overrides (licence_id, key, kind, value, ends_on, note, created_at)
    values (${licenceId}, ${key}, ${kind}, ${value}, ${end}, ${note}, ${createdAt})
    on conflict (licence_id, key) do update set
      value = excluded.value, ends_on = excluded.ends_on, note = excluded.note, end_recorded = false`
}

export async function deleteOverrideRow(sql: Sql, licenceId: string, key: string): Promise<void> {
  await sql`delete from licence_overrides where licence_id = ${licenceId} and key = ${key}`
}
