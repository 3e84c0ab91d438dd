import { audit } from '@licensing/changes/audit'
import type { Changes } from '@licensing/changes/audit'
import { newId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import { CatalogOperationsService } from '@licensing/proto/catalog-operations'
import type { SetFeeRequest } from '@licensing/proto/catalog-operations'
import { closedSets } from '@licensing/proto/closed-sets'
import {
  findAccount,
  insertAccount,
  listAccountRows,
  lockAccount,
  updateFee,
} from './accounts/account-queries.ts'
import type { Fee } from './accounts/account-queries.ts'
import { checkAccount, toAccount } from './accounts/accounts.ts'
import { generateKey, revokeKey } from './api-keys/api-keys.ts'
import { insertApplication } from './applications/application-queries.ts'
import type { CatalogDependencies } from './dependencies.ts'
import { notFound } from './refusals.ts'

const accountsAtOnce = 100

/** The commands of operators for accounts and API keys. */
export function catalogOperationsService({ sql, change, newAccountFee }: CatalogDependencies) {
  return implement(CatalogOperationsService, {
    async createAccount(request) {
      checkAccount(request)
      const { name, alertEmail = null } = request
      const fee = { ...newAccountFee, ...feeOf(request) }
      const accountId = newId('acct')
      const applicationId = newId('app')
      return change(async (tx) => {
        await insertAccount(tx, { id: accountId, name, alertEmail, fee, demo: false })
        await insertApplication(tx, { id: applicationId, accountId, name })
        const { key } = await generateKey(tx, {
          accountId,
          name: 'licensing-admin',
          scopes: closedSets.scope,
        })
        const changes = { name: { from: null, to: name }, alert_email: { from: null, to: alertEmail } }
        await audit(tx, { accountId, resourceId: accountId, changes: changedOnly(changes) })
        return { accountId, applicationId, key }
      })
    },
    async listAccounts({ afterId }) {
      return { accounts: (await listAccountRows(sql, afterId, accountsAtOnce)).map(toAccount) }
    },
    async setFee(request) {
      const { accountId } = request
      return change(async (tx) => {
        if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
        const before = (await findAccount(tx, accountId))!
        await updateFee(tx, accountId, feeOf(request))
        const after = (await findAccount(tx, accountId))!
        const changes = changedOnly({
          bps: { from: before.fee_bps, to: after.fee_bps },
          fixed_minor: { from: Number(before.fee_fixed_minor), to: Number(after.fee_fixed_minor) },
        })
        await audit(tx, { accountId, resourceId: accountId, changes })
        return toAccount(after)
      })
    },
    async revokeAnyApiKey({ keyId }) {
      await change((tx) => revokeKey(tx, 'any account', keyId))
      return {}
    },
  })
}

/** Undefined if nothing has changed. The operator's options name the fields. */
function changedOnly(options: Changes): Changes | undefined {
  const changed = Object.entries(options).filter(([, { from, to }]) => from !== to)
  return changed.length > 0 ? Object.fromEntries(changed) : undefined
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
