import type { DescMessage } from '@bufbuild/protobuf'
import type { ChangeOptions } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { ArchivePlanResponseSchema, PlanSchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanVerb } from '@licensing/proto/closed-sets'
import { changeApplication } from '../applications/applications.ts'
import type { CatalogDependencies, Handler } from '../dependencies.ts'
import { appendPlanChanges, checkLicensingAvailable, syncPlans } from '../plan-copies/plan-changes.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { toPlanCopy } from '../plan-copies/plan-copy.ts'
import { notFound } from '../refusals.ts'
import {
  archiveMs,
  changeStatus,
  claimUnconfirmed,
  confirmStatus,
  findPlan,
  releaseStatus,
} from './plan-queries.ts'
import { auditPlan, toPlan, transitions, wrongStatus } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { countActiveLicences } from './read-plans.ts'

/** Licensing suspends every active licence of the plan, in one transaction (docs/guides/entitlements.md, "Retire a plan"). */
export const archivePlan: Handler<'archivePlan'> = async (deps, request, unfinishedAnswer) => {
  const change = {
    verb: 'archive',
    request,
    isBegun: unfinishedAnswer !== undefined,
    answer: archiveAnswer,
  } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
    const { suspendedLicences } = await deps.licensing
      .archivePlan({ plan: copy }, { timeoutMs: archiveMs })
      .catch((cause: unknown) => {
        const detail = `plan ${plan.id} is retired; its licences are suspended as soon as the licensing service is back`
        throw new ServiceError('unavailable', detail, { cause })
      })
    // There is no active licence on a retired plan.
    return { plan: toPlan(plan, 0n), suspendedLicences }
  })
}

// The answer to record. It is unfinished until licensing has counted the suspended licences.
const archiveAnswer = {
  schema: ArchivePlanResponseSchema,
  toMessage: ({ plan }: Saved) => ({ plan: toPlan(plan, 0n), suspendedLicences: 0n }),
  isUnfinished: true,
}

/** Does not reactivate licences: each licence needs its own call (docs/guides/entitlements.md, "Retire a plan"). */
export const restorePlan: Handler<'restorePlan'> = async (
  deps,
  { accountId, applicationId, planId },
  unfinishedAnswer,
) => {
  const request = { accountId, applicationId, planId, actor: '' }
  const change = {
    verb: 'restore',
    request,
    isBegun: unfinishedAnswer !== undefined,
    answer: restoreAnswer,
  } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
    await syncPlans(deps, [copy])
    const [count] = await countActiveLicences(deps, [plan.id])
    return toPlan(plan, count!)
  })
}

// The answer to record. It is unfinished until licensing has counted the active licences.
const restoreAnswer = {
  schema: PlanSchema,
  toMessage: ({ plan }: Saved) => toPlan(plan, 0n),
  isUnfinished: true,
}

interface Addressed {
  accountId: string
  applicationId: string
  planId: string
}

/** The state of the plan that is saved before licensing is called. */
interface Saved {
  copy: PlanCopy
  plan: PlanRow
}

interface Change<O extends DescMessage> {
  verb: PlanVerb
  request: Addressed & { actor: string }
  /** An earlier call with the same idempotency key has saved the change. */
  isBegun: boolean
  answer: NonNullable<ChangeOptions<O, Saved>['answer']>
}

/**
 * Archives or restores a plan: saves the change with its event, then runs `applyInLicensing`. If that fails, the verb can
 * be called again and continues there; the event of the change also brings it to licensing.
 */
async function changePlanStatus<O extends DescMessage, Outcome>(
  deps: CatalogDependencies,
  change: Change<O>,
  applyInLicensing: (copy: PlanCopy, plan: PlanRow) => Promise<Outcome>,
): Promise<Outcome> {
  await checkLicensingAvailable(deps)
  const { copy, plan } = await changeApplication(deps, change.request, (tx) => save(tx, change), change)
  const record = (write: typeof confirmStatus) =>
    write(deps.sql, plan.id, plan.status_version).catch((error: unknown) =>
      deps.log.warn({ err: error, plan: plan.id }, 'could not record whether licensing has applied a status'),
    )
  try {
    const outcome = await applyInLicensing(copy, plan)
    await record(confirmStatus)
    return outcome
  } catch (error) {
    await record(releaseStatus)
    throw error
  }
}

async function save<O extends DescMessage>(
  tx: Transaction,
  { verb, request, isBegun }: Change<O>,
): Promise<Saved> {
  const { accountId, applicationId, planId, actor } = request
  const read = async () =>
    isId('pln', planId) ? await findPlan(tx, accountId, applicationId, planId) : undefined
  const before = await read()
  if (!before) throw notFound('plan', planId)
  const changed = await changeStatus(tx, planId, verb, actor)
  // A repetition with the same idempotency key may continue at any time: licensing answers the same for the same archive.
  const continues = !changed && isBegun && before.status === transitions[verb].to
  if (!changed && !continues && !(await claimUnconfirmed(tx, planId, verb))) throw wrongStatus(verb, before)
  const copy = toPlanCopy((await findCopy(tx, planId, accountId, applicationId))!)
  if (changed) await appendPlanChanges(tx, { accountId, applicationId }, [{ planId, version: copy.version }])
  const plan = (await read())!
  await auditPlan(tx, accountId, before, plan)
  return { copy, plan }
}
