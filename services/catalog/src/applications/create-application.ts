import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { isUnimplemented } from '@licensing/grpc/errors'
import { ApplicationSchema } from '@licensing/proto/catalog'
import type { CreateApplicationRequest } from '@licensing/proto/catalog'
import { checkQuota, quotaExceeded } from '@licensing/quotas/quota'
import { findQuota } from '@licensing/quotas/quota-queries'
import { lockAccount } from '../accounts/account-queries.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound, Violations } from '../refusals.ts'
import { countApplications, insertApplication } from './application-queries.ts'
import type { ApplicationRow } from './application-queries.ts'
import { toApplication } from './application.ts'

/**
 * Makes an application. Its root key comes first: where licensing is unavailable nothing is made, and the request can be
 * repeated. Licensing keeps that key, so an account that has all its applications gets none: it is refused below, where
 * a repetition of the call that took the last place is answered instead.
 */
export async function createApplication(
  { sql, change, queue, rootKeys }: CatalogDependencies,
  { accountId, name }: CreateApplicationRequest,
): Promise<MessageInitShape<typeof ApplicationSchema>> {
  const violations = new Violations()
  violations.checkName('/name', name)
  violations.throwIfAny()
  const id = newId('app')
  const most = await findQuota(sql, accountId, 'applications')
  const isFull = (await countApplications(sql, accountId)) >= most
  const rootKey = isFull ? undefined : await firstRootKey(rootKeys, id)
  const toAnswer = (row: ApplicationRow) => ({ ...toApplication(row), rootKey })
  const insert = async (tx: Transaction) => {
    if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
    if (isFull) throw quotaExceeded('applications', most)
    const inserted = await insertApplication(tx, { id, accountId, name })
    await checkQuota(tx, accountId, 'applications', await countApplications(tx, accountId))
    return inserted
  }
  const answer = { schema: ApplicationSchema, of: toAnswer }
  return toAnswer(await queue.inTurn(accountId, () => change(insert, { answer })))
}

async function firstRootKey(
  { calls }: CatalogDependencies['rootKeys'],
  applicationId: string,
): Promise<string | undefined> {
  try {
    return (await calls.getRootKeys({ applicationIds: [applicationId] })).rootKeys[0]
  } catch (error) {
    // Licensing of the release before has no root keys: the application gets its own when it is first read.
    if (isUnimplemented(error)) return undefined
    throw error
  }
}
