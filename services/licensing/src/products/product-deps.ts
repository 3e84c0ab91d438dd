import { parseEncryptionKeys } from '@licensing/database/encryption'
import type { LicensingConfig } from '../config.ts'
import type { LicensingDeps } from '../dependencies.ts'
import { callHomeRecorder } from './call-home.ts'
import type { ProductDeps } from './dependencies.ts'
import { keptSeconds } from './key-retention.ts'
import { createSigningKeys } from './signing-keys.ts'

export type ProductConfig = Pick<
  LicensingConfig,
  'ENCRYPTION_KEY' | 'TOKEN_ISSUER' | 'TOKEN_LIFE_SECONDS' | 'CHECK_INTERVAL_SECONDS'
>

/** What the products' handlers need, from the configuration. */
export function productDeps(
  { sql, snapshots }: Pick<LicensingDeps, 'sql' | 'snapshots'>,
  config: ProductConfig,
  now: () => Date = () => new Date(),
): ProductDeps {
  const encryption = parseEncryptionKeys(config.ENCRYPTION_KEY)
  return {
    sql,
    keys: createSigningKeys(sql, encryption, keptSeconds(config.TOKEN_LIFE_SECONDS)),
    snapshots,
    tokens: {
      issuer: config.TOKEN_ISSUER,
      lifeSeconds: config.TOKEN_LIFE_SECONDS,
      checkIntervalSeconds: config.CHECK_INTERVAL_SECONDS,
    },
    callHome: callHomeRecorder(sql),
    now,
  }
}
