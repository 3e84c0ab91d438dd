import type { Database, Sql, Statement } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'

/** A time in which a service's database has lost no commit. It ends with a restore, a failover or a restart of PostgreSQL. */
export interface Epoch {
  /** Grows with each epoch. */
  ordinal: bigint
  /** Commits before this time are not lost. The clock of the database's server. */
  aliveAt: Date
}

/**
 * The epoch of this database.
 *
 * @param remembered the epoch that another service has last seen: `aliveAt` then precedes everything that was lost since
 *   that epoch, also if several have begun since. If it is greater than the newest epoch, another one begins
 * @example const { ordinal, aliveAt } = await currentEpoch(sql, request.epoch)
 */
export async function currentEpoch(sql: Sql, remembered?: bigint): Promise<Epoch> {
  await beginEpoch(sql, remembered)
  const [epoch] = await sql<[Epoch]>`
    select newest as ordinal, min(alive_at) filter (where ordinal > least(${remembered ?? null}::bigint, newest - 1)) as "aliveAt"
    from event_log_epochs cross join (select max(ordinal) as newest from event_log_epochs) group by newest`
  return epoch
}

/** Begins an epoch if the database was started, restored or replaced since the newest one, or if a greater one was seen. */
export function beginEpoch(sql: Sql, seen = 0n): Statement {
  return sql`select current_epoch(${seen})`
}

/** Records that the database is alive, within its epoch: a later epoch tells until when nothing was lost. */
export async function recordAlive(sql: Database): Promise<void> {
  await transaction(sql, async (tx) => {
    await beginEpoch(tx)
    await tx`
      update event_log_state set alive_at = clock_timestamp()
      where alive_at < clock_timestamp() - interval '20 seconds'`
  })
}
