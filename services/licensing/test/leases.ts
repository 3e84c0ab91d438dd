import { expect } from 'vitest'
import { writeFloating } from '../src/licences/update-queries.ts'
import type { LicenceRow } from '../src/lifecycle/licence-row.ts'
import { detailOf } from './makers.ts'
import type { Harness } from './harness.ts'

/** Sets or removes the limit of a licence. */
export async function setConcurrent(
  { sql }: Pick<Harness, 'sql'>,
  licence: { id: string },
  max: number | null,
  leaseMinutes = 15,
): Promise<void> {
  await sql.begin(async (tx) => {
    const [former] = await tx<[Pick<LicenceRow, 'id' | 'max_concurrent'>]>`
      select id, max_concurrent from licences where id = ${licence.id} for update`
    await tx`
      update licences set max_concurrent = ${max}, lease_minutes = ${max === null ? null : leaseMinutes}
      where id = ${licence.id}`
    await writeFloating(tx, { ...former, max_concurrent: max }, former)
  })
}

/** Moves all times of activations and leases, of the given activations or of all of a licence, as if that time had passed. */
export async function passMinutes(
  { sql }: Pick<Harness, 'sql'>,
  minutes: number,
  of: { licence: { id: string } } | { activationIds: string[] },
): Promise<void> {
  const by = sql`make_interval(mins => ${minutes})`
  const concerned = (id: string) =>
    'licence' in of ? sql`licence_id = ${of.licence.id}` : sql`${sql(id)} = any(${of.activationIds}::text[])`
  await sql`
    with moved as (
      update activations set token_ends_at = token_ends_at - ${by}, offline_until = offline_until - ${by},
        held_until = held_until - ${by}
      where ${concerned('id')}
    )
    update leases set ends_at = ends_at - ${by} where ${concerned('activation_id')}`
}

/** How many leases of a licence have not ended, from the table. */
export async function leasesRunning({ sql }: Pick<Harness, 'sql'>, licence: { id: string }): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from leases where licence_id = ${licence.id} and ends_at > clock_timestamp()`
  return row!.count
}

export async function leasesInUse(harness: Harness, licence: { id: string }): Promise<number> {
  const { leasesInUse: count } = await detailOf(harness, licence)
  return Number(count)
}

/** Checks the rules for leases in the migration: the numbers, and that each lease that has not ended is counted. */
export async function expectLeasesConsistent({ sql }: Pick<Harness, 'sql'>): Promise<void> {
  const wrong = await sql`
    select coalesce(f.licence_id, l.licence_id) as licence_id, f.activations, f.leases, l.counted, l.uncounted_running, l.orphans
    from floating_licences f full join (
      select licence_id, count(*) filter (where counted)::int as counted,
        count(*) filter (where not counted and ends_at > clock_timestamp())::int as uncounted_running,
        count(*) filter (where not exists (select from activations where id = activation_id))::int as orphans
      from leases group by licence_id
    ) l on l.licence_id = f.licence_id
    where f.leases is distinct from coalesce(l.counted, 0) or l.uncounted_running > 0 or l.orphans > 0
      or f.activations <> (select count(*) from activations a where a.licence_id = f.licence_id)`
  expect(wrong).toEqual([])
  const unlisted = await sql`
    select l.id from licences l full join floating_licences f on f.licence_id = l.id
    where (l.max_concurrent is not null) <> (f.licence_id is not null)`
  expect(unlisted).toEqual([])
}
