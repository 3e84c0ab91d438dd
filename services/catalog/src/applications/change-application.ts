import type { DescMessage } from '@bufbuild/protobuf'
import type { ChangeOptions } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import type { CatalogDependencies } from '../dependencies.ts'
import { lockApplication } from './application-queries.ts'

/**
 * Runs a change of an application's definitions or plans in one transaction, under the application's lock: changes of
 * one application follow one another, so versions of plans grow in the order of commits and each resolves what is
 * committed.
 *
 * @throws ServiceError `not_found` where the application is not the account's
 */
export function changeApplication<T, O extends DescMessage>(
  deps: CatalogDependencies,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  work: (tx: Transaction) => Promise<T>,
  options?: ChangeOptions<O, T>,
): Promise<T> {
  return deps.queue.inTurn(applicationId, () =>
    deps.change(async (tx) => {
      await lockApplication(tx, accountId, applicationId)
      return work(tx)
    }, options),
  )
}
