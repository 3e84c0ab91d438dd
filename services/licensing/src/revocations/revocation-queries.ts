import type { Sql } from '@licensing/database/connect'

/** The state of an application's list. */
export interface ListState {
  /** The latest version; 0 if nothing was ever revoked. */
  version: number
  /** The newest epoch of the database that the versions count in; 0 in its first epoch. */
  epoch: number
}

/**
 * The states of the lists of applications, in their order. If the database was restored from a backup or replaced, the versions that it has
 * lost are lower than the epoch that began then (the comment on `revocation_lists` in the migration says why this needs
 * the lists' locks once).
 */
export async function findLists(sql: Sql, applicationIds: string[]): Promise<ListState[]> {
  const rows = await sql<(ListState & { application_id: string; is_behind: boolean })[]>`
    with current as materialized (select nullif(current_epoch(), 1) as epoch)
    select asked.application_id, coalesce(list.epoch, 0)::float8 as epoch,
      coalesce(current.epoch > coalesce(list.epoch, 0), false) as is_behind,
      greatest(list.epoch, 0, (
        select version from revocations r
        where r.application_id = asked.application_id order by version desc limit 1
      ))::float8 as version
    from unnest(${[...new Set(applicationIds)]}::text[]) as asked (application_id) cross join current
      left join revocation_lists list on list.application_id = asked.application_id`
  const behind = rows.flatMap((row) => (row.is_behind ? [row.application_id] : []))
  if (behind.length > 0) {
    await sql`
      insert into revocation_lists (application_id, epoch)
      select id, current_epoch() from unnest(${behind}::text[]) as id order by id
      on conflict (application_id) do update set epoch = greatest(revocation_lists.epoch, excluded.epoch)`
    return findLists(sql, applicationIds)
  }
  const found = new Map(rows.map((row) => [row.application_id, row]))
  return applicationIds.map((id) => found.get(id)!)
}

/** Locks the lists of applications in the order of their ids. A trigger would lock them in the order of the licences. */
export async function lockLists(sql: Sql, applicationIds: string[]): Promise<void> {
  await sql`
    insert into revocation_lists (application_id)
    select distinct id from unnest(${applicationIds}::text[]) as id order by id on conflict do nothing`
  await sql`
    select from revocation_lists where application_id = any(${applicationIds}::text[])
    order by application_id for update`
}

/** The first licences of a range of versions. */
interface Revoked {
  /** Their ids, oldest first, each in quotes, separated by commas. They are one text, because 16,000 rows take several times the CPU. */
  ids: string
  /** The version of the last one. */
  last: number
  /** Whether the range has further licences. */
  more: boolean
}

/** The licences revoked after version `since` and up to `version`, oldest first, at most `max`. */
export async function findRevoked(
  sql: Sql,
  applicationId: string,
  { since, version, max }: { since: number; version: number; max: number },
): Promise<Revoked> {
  const [row] = await sql<[Revoked]>`
    select coalesce(string_agg('"' || licence_id || '"', ',' order by version) filter (where place <= ${max}), '') as ids,
      coalesce(max(version) filter (where place <= ${max}), 0)::float8 as last, count(*) > ${max} as more
    from (
      select licence_id, version, row_number() over (order by version) as place from revocations
      where application_id = ${applicationId} and version > ${since} and version <= ${version}
      order by version limit ${max + 1}
    ) later`
  return row
}
