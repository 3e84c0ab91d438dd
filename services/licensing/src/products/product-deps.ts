import type { Database } from '@licensing/database/connect'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import type { LicensingConfig } from '../config.ts'
import { gather } from '../gather.ts'
import { recordCallHomes } from './activation-queries.ts'
import type { CallHome } from './activation-queries.ts'
import type { ProductDeps } from './dependencies.ts'
import { createSigningKeys } from './signing-keys.ts'

/** What the products' handlers need, from the configuration. */
export function productDeps(
  sql: Database,
  config: Pick<
    LicensingConfig,
    'ENCRYPTION_KEY' | 'TOKEN_ISSUER' | 'TOKEN_LIFE_SECONDS' | 'CHECK_INTERVAL_SECONDS'
  >,
  now: () => Date = () => new Date(),
): ProductDeps {
  const encryption = parseEncryptionKeys(config.ENCRYPTION_KEY)
  return {
    sql,
    keys: createSigningKeys(sql, encryption, config.TOKEN_LIFE_SECONDS),
    tokens: {
      issuer: config.TOKEN_ISSUER,
      lifeSeconds: config.TOKEN_LIFE_SECONDS,
      checkIntervalSeconds: config.CHECK_INTERVAL_SECONDS,
    },
    callHome: gather<CallHome, void>(
      async (calls) => {
        await recordCallHomes(sql, calls)
        return calls.map(() => undefined)
      },
      { mostTogether: 500, isTransient: isDatabaseUnavailable },
    ),
    now,
  }
}
