import { isId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { PlanVerb } from '@licensing/proto/closed-sets'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDeps } from '../dependencies.ts'
import { announce } from '../plan-copies/announce.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { toPlanCopy } from '../plan-copies/plan-copy.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { notFound } from '../refusals.ts'
import { changeStatus, findPlan, resumeStatus, settleStatus } from './plan-queries.ts'
import type { PlanRow } from './plan.ts'
import { wrongStatus } from './plan.ts'

interface Addressed {
  accountId: string
  applicationId: string
  planId: string
}

/**
 * Archives or restores: saved with its event first, then brought to licensing by `follow`. Where that fails the verb
 * may be asked again, and then goes on where it stopped; the event does the same by itself.
 */
export async function changePlanStatus<Outcome>(
  deps: CatalogDeps,
  verb: PlanVerb,
  request: Addressed & { actor: string },
  follow: (copy: PlanCopy, plan: PlanRow) => Promise<Outcome>,
): Promise<Outcome> {
  await requireLicensing(deps)
  const { copy, plan } = await save(deps, verb, request)
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

async function save(
  deps: CatalogDeps,
  verb: PlanVerb,
  request: Addressed & { actor: string },
): Promise<{ copy: PlanCopy; plan: PlanRow }> {
  const { accountId, applicationId, planId, actor } = request
  return changeApplication(deps, request, async (tx) => {
    const read = async () =>
      isId('pln', planId) ? await findPlan(tx, accountId, applicationId, planId) : undefined
    const held = await read()
    if (!held) throw notFound('plan', planId)
    const changed = await changeStatus(tx, planId, verb, actor)
    if (!changed && !(await resumeStatus(tx, planId, verb))) throw wrongStatus(verb, held)
    const copy = toPlanCopy((await findCopy(tx, planId, accountId, applicationId))!)
    if (changed) await announce(tx, accountId, applicationId, [copy])
    return { copy, plan: (await read())! }
  })
}
