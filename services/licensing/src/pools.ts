import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import type { LicensingConfig } from './config.ts'

/** The connections to the database: most for changes, some for lists. */
export function connectPools(config: Pick<LicensingConfig, 'DATABASE_URL' | 'DATABASE_CONNECTIONS'>): {
  sql: Database
  lists: Database
} {
  const forLists = Math.max(1, Math.floor(config.DATABASE_CONNECTIONS / 4))
  return {
    sql: connect(config.DATABASE_URL, {
      name: 'licensing',
      max: config.DATABASE_CONNECTIONS - forLists,
      // A large archive holds its licences for a while: those who want them must not hold all connections.
      lockTimeoutMs: 4_000,
    }),
    // Which index is best depends on how rare the values are that are asked for.
    lists: connect(config.DATABASE_URL, {
      name: 'licensing-lists',
      max: forLists,
      settings: { plan_cache_mode: 'force_custom_plan' },
    }),
  }
}
