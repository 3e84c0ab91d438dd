import { connect, oneConnection } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import type { KeyedQueue } from '@licensing/grpc/keyed-queue'
import type { LicensingConfig } from './config.ts'

/** Three quarters of the database connections, and a separate pool with the rest for lists. */
export function connectPools(config: Pick<LicensingConfig, 'DATABASE_URL' | 'DATABASE_CONNECTIONS'>): {
  sql: Database
  lists: Database
} {
  const forLists = Math.max(1, Math.floor(config.DATABASE_CONNECTIONS / 4))
  return {
    sql: connect(config.DATABASE_URL, {
      name: 'licensing',
      max: config.DATABASE_CONNECTIONS - forLists,
      // A large archive locks its licences for a while. Requests that wait for them must not occupy all connections.
      lockTimeoutMs: 4_000,
    }),
    // The best index of a list depends on how rare the requested values are.
    lists: connect(config.DATABASE_URL, {
      name: 'licensing-lists',
      max: forLists,
      settings: { plan_cache_mode: 'force_custom_plan' },
    }),
  }
}

/**
 * A connection for reads that find rows by their keys. PostgreSQL plans such a read again each time if it has few keys, which
 * takes 400 µs, and the read itself 80. Here it is planned once, and only with indexes and nested loops, which stay fast
 * when the tables grow.
 */
export function connectForKeys(sql: Database): Database {
  return oneConnection(sql, {
    plan_cache_mode: 'force_generic_plan',
    enable_seqscan: 'off',
    enable_hashjoin: 'off',
    enable_mergejoin: 'off',
  })
}

/** An account uses at most half of the pool for lists at a time. */
export function createListQueue(lists: Database): KeyedQueue {
  const atOnce = Math.max(1, Math.floor(lists.options.max / 2))
  return createKeyedQueue('too many lists of this account are being read: try again', atOnce)
}
