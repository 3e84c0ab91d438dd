import type { MessageInitShape, DescMessage } from '@bufbuild/protobuf'
import { ArchivePlanResponseSchema, PlanSchema } from '@licensing/proto/catalog'
import type {
  ArchivePlanRequest,
  ArchivePlanResponse,
  Plan,
  RestorePlanRequest,
  PlanCopy,
} from '@licensing/proto/catalog'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import type { ChangeOptions } from '@licensing/changes/change'
import type { PlanVerb } from '@licensing/proto/closed-sets'
import type { CatalogDependencies } from '../dependencies.ts'
import { savedOnly, push, announce, requireLicensing } from '../plan-copies/plan-changes.ts'
import { archiveMs, changeStatus, findPlan, resumeStatus, settleStatus } from './plan-queries.ts'
import { toPlan, transitions, wrongStatus } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { countActiveLicences } from './read-plans.ts'
import { changeApplication } from '../applications/applications.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { toPlanCopy } from '../plan-copies/plan-copy.ts'
import { notFound } from '../refusals.ts'

/** Interface 3.2: every active licence on the plan becomes suspended, in licensing's one transaction. */
export async function archivePlan(
  deps: CatalogDependencies,
  request: ArchivePlanRequest,
  begun?: ArchivePlanResponse,
): Promise<MessageInitShape<typeof ArchivePlanResponseSchema>> {
  const change = { verb: 'archive', request, isBegun: begun !== undefined, answer: archiveAnswer } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
    const { suspendedLicences } = await deps.licensing.calls
      .archivePlan({ plan: copy }, { timeoutMs: archiveMs })
      .catch((error: unknown) => {
        throw savedOnly(
          `plan ${plan.id} is retired; its licences are suspended as soon as the licensing service is back`,
          error,
        )
      })
    // There is no active licence on a retired plan.
    return { plan: toPlan(plan, 0n), suspendedLicences }
  })
}

// Until licensing has counted them.
const archiveAnswer = {
  schema: ArchivePlanResponseSchema,
  of: ({ plan }: Saved) => ({ plan: toPlan(plan, 0n), suspendedLicences: 0n }),
  isUnfinished: true,
}

/** Interface 3.2: does not reactivate licences; each needs its own call. */
export async function restorePlan(
  deps: CatalogDependencies,
  { accountId, applicationId, planId }: RestorePlanRequest,
  begun?: Plan,
): Promise<MessageInitShape<typeof PlanSchema>> {
  const request = { accountId, applicationId, planId, actor: '' }
  const change = { verb: 'restore', request, isBegun: begun !== undefined, answer: restoreAnswer } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
    await push(deps, [copy])
    const [count] = await countActiveLicences(deps, [plan.id])
    return toPlan(plan, count!)
  })
}

// Until licensing has counted.
const restoreAnswer = { schema: PlanSchema, of: ({ plan }: Saved) => toPlan(plan, 0n), isUnfinished: true }

interface Addressed {
  accountId: string
  applicationId: string
  planId: string
}

/** What is saved before licensing is asked. */
interface Saved {
  copy: PlanCopy
  plan: PlanRow
}

interface Change<O extends DescMessage> {
  verb: PlanVerb
  request: Addressed & { actor: string }
  /** An earlier call with the same idempotency key has saved it. */
  isBegun: boolean
  answer: NonNullable<ChangeOptions<O, Saved>['answer']>
}

/**
 * Archives or restores: saved with its event first, then brought to licensing by `follow`. Where that fails the verb
 * may be asked again, and then goes on where it stopped; the event does the same by itself.
 */
async function changePlanStatus<O extends DescMessage, Outcome>(
  deps: CatalogDependencies,
  change: Change<O>,
  follow: (copy: PlanCopy, plan: PlanRow) => Promise<Outcome>,
): Promise<Outcome> {
  await requireLicensing(deps)
  const { copy, plan } = await changeApplication(deps, change.request, (tx) => save(tx, change), change)
  const settle = (confirmed: boolean) =>
    settleStatus(deps.sql, plan.id, plan.status_version, confirmed).catch((error: unknown) =>
      deps.log.warn({ err: error, plan: plan.id }, 'the outcome of a push could not be recorded'),
    )
  try {
    const outcome = await follow(copy, plan)
    await settle(true)
    return outcome
  } catch (error) {
    await settle(false)
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
  const held = await read()
  if (!held) throw notFound('plan', planId)
  const changed = await changeStatus(tx, planId, verb, actor)
  // What this key has begun it may finish at any time: licensing answers the same for the same archive.
  const resumes = !changed && isBegun && held.status === transitions[verb].to
  if (!changed && !resumes && !(await resumeStatus(tx, planId, verb))) throw wrongStatus(verb, held)
  const copy = toPlanCopy((await findCopy(tx, planId, accountId, applicationId))!)
  if (changed) await announce(tx, { accountId, applicationId }, copy)
  return { copy, plan: (await read())! }
}
