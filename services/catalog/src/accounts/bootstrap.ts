import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { closedSets } from '@licensing/proto/closed-sets'
import type { CatalogConfig } from '../config.ts'
import { findKeyByHash, insertKey } from '../api-keys/api-key-queries.ts'
import { hashOfKey } from '../api-keys/key-format.ts'
import { insertApplication } from '../applications/application-queries.ts'
import { findDemoAccount, insertAccount, lockBootstrap, recordNewAccountFees } from './account-queries.ts'

/**
 * At the first start makes the demo account, its application and the key that the operator brings. A later start with
 * another key adds that key to the account; what stands already, also a revoked key, is left as it is.
 */
export async function bootstrap(
  sql: Database,
  config: Pick<CatalogConfig, 'BOOTSTRAP_API_KEY' | 'ALERT_EMAIL' | 'FEE_BPS' | 'FEE_FIXED_MINOR'>,
): Promise<void> {
  const fee = { bps: config.FEE_BPS, fixedMinor: BigInt(config.FEE_FIXED_MINOR) }
  const key = config.BOOTSTRAP_API_KEY
  await transaction(sql, async (tx) => {
    // Replicas that start at once wait here for one another.
    await lockBootstrap(tx)
    await recordNewAccountFees(tx, fee)
    if (key === undefined) return
    const hash = hashOfKey(key)
    if (await findKeyByHash(tx, hash)) return
    let accountId = await findDemoAccount(tx)
    if (accountId === undefined) {
      accountId = newId('acct')
      await insertAccount(tx, {
        id: accountId,
        name: 'Demo',
        alertEmail: config.ALERT_EMAIL,
        fee,
        demo: true,
      })
      await insertApplication(tx, { id: newId('app'), accountId, name: 'Demo' })
    }
    await insertKey(tx, {
      id: newId('key'),
      accountId,
      applicationId: null,
      name: 'Demo',
      hash,
      lastFour: key.slice(-4),
      scopes: [...closedSets.scope],
    })
  })
}
