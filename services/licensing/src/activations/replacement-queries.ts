import type { Sql } from '@licensing/database/connect'

/**
 * The activation of a licence that called home longest ago.
 *
 * @param withLease only activations whose lease is counted
 */
export async function findOldest(
  sql: Sql,
  licenceId: string,
  { withLease }: { withLease: boolean },
): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`
    select a.id from activations a
    where a.licence_id = ${licenceId} and (
      not ${withLease} or exists (select from leases where activation_id = a.id and counted)
    )
    order by a.last_seen_at, a.id limit 1`
  return row?.id
}

// Additions 14.7: this many replacements per licence and UTC day.
const maxPerDay = 5

/** Counts a replacement, under the licence's lock. @returns false if there were too many today */
export async function countReplacement(sql: Sql, licenceId: string): Promise<boolean> {
  const { count } = await sql`
    insert into replacements as r (licence_id, day, replaced)
    values (${licenceId}, (clock_timestamp() at time zone 'UTC')::date, 1)
    on conflict (licence_id) do update set day = excluded.day,
      replaced = case when r.day = excluded.day then r.replaced + 1 else 1 end
    where r.day <> excluded.day or r.replaced < ${maxPerDay}`
  return count === 1
}
