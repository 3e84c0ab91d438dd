import type { Sql, Transaction } from '@licensing/database/connect'

// A licence's detail shows as many (decisions 4).
const latestKept = 50

/**
 * The next step of the walk over all licences: forgets call-homes older than `keptDays`, though never a licence's
 * latest ones. Of a licence with a million calls it reads the old ones and the latest 50.
 *
 * @param options.licences how many this step looks at
 * @param options.roundHours a round begins so long after the one before
 * @returns false where there is nothing to do: the round is done, or another replica is at it
 */
export async function forgetOldCallHomes(
  tx: Transaction,
  options: { keptDays: number; roundHours: number; licences: number },
): Promise<boolean> {
  const { keptDays, roundHours, licences } = options
  const afterLicenceId = await lockWalk(tx, roundHours)
  if (afterLicenceId === undefined) return false
  const [step] = await tx<{ licences: number; last: string | null }[]>`
    with licence as materialized (
      select licence_id from licence_activity
      where licence_id > ${afterLicenceId} order by licence_id limit ${licences}
    ),
    forgettable as materialized (
      select licence.licence_id, least(latest.position, recent.position) as before_position
      from licence
      join lateral (
        select position from call_homes c where c.licence_id = licence.licence_id
        order by position desc offset ${latestKept - 1} limit 1
      ) latest on true
      left join lateral (
        select position from call_homes c
        where c.licence_id = licence.licence_id and c.seen_at >= now() - ${keptDays}::int * interval '1 day'
        order by position limit 1
      ) recent on true
    ),
    forgotten as (
      delete from call_homes c using forgettable
      where c.licence_id = forgettable.licence_id and c.position < forgettable.before_position
    )
    select count(*)::int as licences, max(licence_id) as last from licence`
  const roundDone = step!.licences < licences
  await tx`update call_home_walk set after_licence_id = ${roundDone ? '' : step!.last}`
  return !roundDone
}

/** Where the walk goes on; undefined where it rests, or another goes on with it. */
async function lockWalk(sql: Sql, roundHours: number): Promise<string | undefined> {
  const [row] = await sql<{ after_licence_id: string }[]>`
    with walk as (
      select only_row from call_home_walk
      where after_licence_id <> '' or round_started_at < now() - ${roundHours}::float8 * interval '1 hour'
      for update skip locked
    )
    update call_home_walk w
    set round_started_at = case when after_licence_id = '' then now() else round_started_at end
    from walk where w.only_row = walk.only_row
    returning after_licence_id`
  return row?.after_licence_id
}
