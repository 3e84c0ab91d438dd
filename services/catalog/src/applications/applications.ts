import { messageOf } from '@licensing/grpc/fields'
import type { DescMessage } from '@bufbuild/protobuf'
import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { ApplicationSchema } from '@licensing/proto/catalog'
import type { Application } from '@licensing/proto/catalog'
import { checkQuota, quotaExceeded } from '@licensing/quotas/quota'
import { findQuota } from '@licensing/quotas/quota-queries'
import { pageOf } from '@licensing/database/page'
import type { ChangeOptions } from '@licensing/changes/change'
import { lockAccount } from '../accounts/account-queries.ts'
import type { CatalogDependencies, Handler } from '../dependencies.ts'
import { checkLicensingAvailable, incrementAllVersions, syncAllPlans } from '../plan-copies/plan-changes.ts'
import { notFound, Violations, checkPage } from '../refusals.ts'
import {
  countApplications,
  insertApplication,
  findApplication,
  findApplicationOfAnyAccount,
  listApplicationRows,
  lockApplication,
  updateApplicationRow,
} from './application-queries.ts'
import type { ApplicationRow } from './application-queries.ts'
import { changedPage, customerPage } from './customer-page.ts'

/**
 * Creates an application. Licensing creates its root key first: if licensing is unavailable, nothing is saved and the
 * request can be repeated. Licensing stores root keys permanently, so if the quota is reached, it is not asked for
 * one. The transaction then refuses the call, unless it repeats the call that created the last application.
 */
export const createApplication: Handler<'createApplication'> = async (
  { sql, change, queue, rootKeys },
  { accountId, name },
) => {
  const violations = new Violations()
  violations.checkName('/name', name)
  violations.throwIfAny()
  const id = newId('app')
  const max = await findQuota(sql, accountId, 'applications')
  const isFull = (await countApplications(sql, accountId)) >= max
  const rootKey = isFull ? null : (await rootKeys.getRootKeys({ applicationIds: [id] })).rootKeys[0]
  const toAnswer = (row: ApplicationRow) => toApplication(row, rootKey)
  const insert = async (tx: Transaction) => {
    if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
    if (isFull) throw quotaExceeded('applications', max)
    const inserted = await insertApplication(tx, { id, accountId, name })
    await checkQuota(tx, accountId, 'applications', await countApplications(tx, accountId))
    const changes = changesOf(ApplicationSchema, undefined, toAnswer(inserted))
    await audit(tx, { accountId, applicationId: id, resourceId: id, changes })
    return inserted
  }
  const answer = { schema: ApplicationSchema, toMessage: toAnswer }
  return toAnswer(await queue.run(accountId, () => change(insert, { answer })))
}

export const getApplication: Handler<'getApplication'> = async ({ sql }, { accountId, applicationId }) => {
  const row = await findApplication(sql, accountId, applicationId)
  if (!row) throw notFound('application', applicationId)
  return toApplication(row)
}

export const findApplicationOwner: Handler<'findApplicationOwner'> = async ({ sql }, { applicationId }) => {
  const row = await findApplicationOfAnyAccount(sql, applicationId)
  if (!row) throw notFound('application', applicationId)
  return { accountId: row.account_id }
}

export const findCustomerPage: Handler<'findCustomerPage'> = async ({ sql }, { applicationId }) => {
  const row = await findApplicationOfAnyAccount(sql, applicationId)
  if (!row) throw notFound('application', applicationId)
  return { name: row.name, page: customerPage(row.customer_page) }
}

export const listApplications: Handler<'listApplications'> = async ({ sql }, request) => {
  checkPage('app', request)
  const rows = await listApplicationRows(sql, request.accountId, request, request.onlyApplicationId)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { applications: page.map((row) => toApplication(row)), hasMore }
}

const maxNoticeDays = 90

/** Changes an application's own fields. The notice is part of the copies of its plans, which licensing has. */
export const updateApplication: Handler<'updateApplication'> = async (deps, request) => {
  const { applicationId, name, expiringNoticeDays } = request
  if (expiringNoticeDays !== undefined) await checkLicensingAvailable(deps)
  const { row, change } = await changeApplication(deps, request, async (tx, before) => {
    const violations = new Violations()
    if (name !== undefined) violations.checkName('/name', name)
    if (expiringNoticeDays !== undefined && !(expiringNoticeDays >= 0 && expiringNoticeDays <= maxNoticeDays))
      violations.add('/expiring_notice_days', `must be a whole number from 0 to ${maxNoticeDays}`)
    violations.throwIfAny()
    const page = request.customerPage && changedPage(before.customer_page, request.customerPage)
    const fields = { name, expiringNoticeDays, customerPage: page }
    const updated = await updateApplicationRow(tx, applicationId, fields)
    const changes = changesOf(ApplicationSchema, toApplication(before), toApplication(updated))
    await audit(tx, { accountId: before.account_id, applicationId, resourceId: applicationId, changes })
    const days = updated.expiring_notice_days
    const change =
      days === before.expiring_notice_days
        ? undefined
        : await incrementAllVersions(tx, request, { expiringNoticeDays: days })
    return { row: updated, change }
  })
  // Even if the notice has not changed: an earlier call may have saved it without reaching licensing.
  if (expiringNoticeDays !== undefined) await syncAllPlans(deps, request, change)
  return toApplication(row)
}

/**
 * Runs a change of an application, its definitions or its plans in one transaction, under the application's lock. Because such
 * changes run one after another, the versions of plans grow in the order of commits, and each copy is resolved from committed
 * rows.
 *
 * @throws ServiceError `not_found` if the account has no such application
 */
export function changeApplication<T, O extends DescMessage>(
  deps: CatalogDependencies,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  work: (tx: Transaction, application: ApplicationRow) => Promise<T>,
  options?: ChangeOptions<O, T>,
): Promise<T> {
  return deps.queue.run(applicationId, () =>
    deps.change(async (tx) => work(tx, await lockApplication(tx, accountId, applicationId)), options),
  )
}

function toApplication(row: ApplicationRow, rootKey: string | null = null): Application {
  const page = customerPage(row.customer_page)
  return messageOf(ApplicationSchema, { ...row, customer_page: page, root_key: rootKey })
}
