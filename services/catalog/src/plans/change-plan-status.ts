import type { DescMessage } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import type { ChangeOptions } from '@licensing/changes/change'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanVerb } from '@licensing/proto/closed-sets'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { announce } from '../plan-copies/announce.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { toPlanCopy } from '../plan-copies/plan-copy.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { notFound } from '../refusals.ts'
import { changeStatus, findPlan, resumeStatus, settleStatus } from './plan-queries.ts'
import type { PlanRow } from './plan.ts'
import { transitions, wrongStatus } from './plan.ts'

interface Addressed {
  accountId: string
  applicationId: string
  planId: string
}

/** What is saved before licensing is asked. */
export interface Saved {
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
export async function changePlanStatus<O extends DescMessage, Outcome>(
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
