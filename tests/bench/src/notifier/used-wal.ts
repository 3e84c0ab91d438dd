import type { Database } from '@licensing/database/connect'
import { scaled } from '../bench-scale.ts'

// More than PostgreSQL keeps: `min_wal_size` and what it writes between two checkpoints.
const segments = scaled(140, 5)

/**
 * Makes PostgreSQL as it is after some time at work: with old WAL segments to use again. A new server has none, and no
 * commit ends while it makes one (16 MiB of zeros): 17 ms, every 3 s beside 10,000 events a second.
 */
export async function useWal(sql: Database): Promise<void> {
  for (let made = 0; made < segments; made += 1) {
    // Only a segment that something was written to is switched.
    await sql`select pg_logical_emit_message(false, 'bench', 'segment')`
    await sql`select pg_switch_wal()`
  }
  await sql`checkpoint`
}
