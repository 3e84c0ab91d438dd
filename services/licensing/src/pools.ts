import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
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
