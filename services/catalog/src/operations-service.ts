import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { invalid } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import { CatalogOperationsService } from '@licensing/proto/catalog-operations'
import type { SetFeeRequest } from '@licensing/proto/catalog-operations'
import { closedSets } from '@licensing/proto/closed-sets'
import { findAccount, insertAccount, listAccountRows, updateFee } from './accounts/account-queries.ts'
import type { Fee } from './accounts/account-queries.ts'
import { checkAccount, toAccount } from './accounts/accounts.ts'
import { generateKey, revokeKey } from './api-keys/api-keys.ts'
import { insertApplication } from './applications/application-queries.ts'
import type { CatalogDependencies } from './dependencies.ts'
import { notFound } from './refusals.ts'

const accountsAtOnce = 100

/** The commands of operators for accounts and API keys. */
export function catalogOperationsService({ sql, newAccountFee }: CatalogDependencies) {
  return implement(CatalogOperationsService, {
    async createAccount(request) {
      checkAccount(request)
      const { name, alertEmail = null } = request
      const fee = { ...newAccountFee, ...feeOf(request) }
      const accountId = newId('acct')
      const applicationId = newId('app')
      return transaction(sql, async (tx) => {
        await insertAccount(tx, { id: accountId, name, alertEmail, fee, demo: false })
        await insertApplication(tx, { id: applicationId, accountId, name })
        const { key } = await generateKey(tx, {
          accountId,
          name: 'licensing-admin',
          scopes: closedSets.scope,
        })
        return { accountId, applicationId, key }
      })
    },
    async listAccounts({ afterId }) {
      return { accounts: (await listAccountRows(sql, afterId, accountsAtOnce)).map(toAccount) }
    },
    async setFee(request) {
      await updateFee(sql, request.accountId, feeOf(request))
      const row = await findAccount(sql, request.accountId)
      if (!row) throw notFound('account', request.accountId)
      return toAccount(row)
    },
    async revokeAnyApiKey({ keyId }) {
      if (!(await revokeKey(sql, 'any account', keyId))) throw notFound('API key', keyId)
      return {}
    },
  })
}

/** The parts of the fee that a request names. */
function feeOf({ feeBps, feeFixedMinor }: Pick<SetFeeRequest, 'feeBps' | 'feeFixedMinor'>): Partial<Fee> {
  if (feeBps !== undefined && (feeBps < 0 || feeBps > 10_000)) throw invalid('/fee_bps', 'must be 0 to 10000')
  if (feeFixedMinor !== undefined && (feeFixedMinor < 0n || feeFixedMinor > Number.MAX_SAFE_INTEGER)) {
    throw invalid('/fee_fixed_minor', `must be 0 to ${Number.MAX_SAFE_INTEGER}`)
  }
  return {
    ...(feeBps !== undefined && { bps: feeBps }),
    ...(feeFixedMinor !== undefined && { fixedMinor: feeFixedMinor }),
  }
}
