import type { Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import { brokenConstraint } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import type { BillingDependencies } from '../dependencies.ts'
import { insertReconciliation } from '../processor-events/reconcile-queries.ts'
import { forgetUnused, holderConstraint, lockConnections, makeCurrent } from './connection-queries.ts'
import type { ConnectionRow } from './connection-queries.ts'

// Of an account, in ten minutes: each is compared with the processor's records.
const mostUnused = 20

/**
 * Connects an account to a merchant that it may have. Which of two vendors has it is decided by the constraint.
 *
 * @param first what has to happen with it, before
 */
export async function connectMerchant(
  { sql }: Pick<BillingDependencies, 'sql'>,
  { accountId, merchant }: { accountId: string; merchant: string },
  first: (tx: Transaction) => Promise<void>,
): Promise<ConnectionRow> {
  try {
    return await transaction(sql, async (tx) => {
      await lockConnections(tx, accountId)
      await first(tx)
      await insertReconciliation(tx, merchant)
      const row = await makeCurrent(tx, accountId, merchant)
      if ((await forgetUnused(tx, accountId)) > mostUnused) {
        throw new ServiceError(
          'rate_limited',
          'too many accounts were connected one after the other: try again in ten minutes',
        )
      }
      return row
    })
  } catch (error) {
    if (brokenConstraint(error) === holderConstraint) throw heldByAnother(merchant)
    throw error
  }
}

function heldByAnother(merchant: string): ServiceError {
  const connectedAccount = merchant.slice(merchant.indexOf(':') + 1)
  return new ServiceError(
    'already_exists',
    `${connectedAccount} is connected to another vendor account: connect another one there, or withdraw the platform's access at the payment processor first`,
  )
}
