import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { closedSets } from '@licensing/proto/closed-sets'
import type { CatalogConfig } from './config.ts'
import { findKeyByHash, insertKey } from './api-keys/api-key-queries.ts'
import { hashOfKey } from './api-keys/key-format.ts'
import { insertApplication } from './applications/application-queries.ts'
import { findDemoAccount, insertAccount, lockBootstrap } from './accounts/account-queries.ts'
import type { Fee } from './accounts/account-queries.ts'

/**
 * The first start creates the demo account, its application and the operator's key. A later start with another key adds
 * that key to the account. Existing rows, including revoked keys, do not change.
 */
export async function bootstrap(
  sql: Database,
  {
    BOOTSTRAP_API_KEY: key,
    ALERT_EMAIL: alertEmail,
  }: Pick<CatalogConfig, 'BOOTSTRAP_API_KEY' | 'ALERT_EMAIL'>,
  fee: Fee,
): Promise<void> {
  if (key === undefined) return
  await transaction(sql, async (tx) => {
    // Replicas that start at the same time do this one after another.
    await lockBootstrap(tx)
    const hash = hashOfKey(key)
    if (await findKeyByHash(tx, hash)) return
    let accountId = await findDemoAccount(tx)
    if (accountId === undefined) {
      accountId = newId('acct')
      await insertAccount(tx, { id: accountId, name: 'Demo', alertEmail, fee, demo: true })
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
