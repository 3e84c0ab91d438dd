import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { PlanSchema } from '@licensing/proto/catalog'
import type { CreatePlanRequest, PlanCopy } from '@licensing/proto/catalog'
import { checkQuota } from '@licensing/quotas/quota'
import { changeApplication } from '../applications/applications.ts'
import type { Handler } from '../dependencies.ts'
import { definitionsWithKeys } from '../entitlements/definition-queries.ts'
import { appendPlanChanges, syncPlans } from '../plan-copies/plan-changes.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { toPlanCopy } from '../plan-copies/plan-copy.ts'
import { Violations } from '../refusals.ts'
import { auditPlan, matchOverrides, codeTaken, toPlan } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { planFields } from './plan-fields.ts'
import { countPlans, findPlan, insertPlan, replaceOverrides } from './plan-queries.ts'

// Short, because licensing fetches a missing copy when a licence is issued on the plan.
const newPlanTimeoutMs = 1_000

export const createPlan: Handler<'createPlan'> = async (deps, request) => {
  const answer = { schema: PlanSchema, toMessage: ({ plan }: { plan: PlanRow }) => toPlan(plan, 0n) }
  const { plan, copy } = await changeApplication(deps, request, (tx) => insert(tx, request), {
    answer,
  }).catch((error: unknown) => {
    throw brokenConstraint(error) === 'plans_code' ? codeTaken(request.fields?.code ?? '') : error
  })
  // A product starts a trial with the code of the plan, and licensing fetches no missing copy for a code.
  const timeoutMs = plan.trial_days === null ? newPlanTimeoutMs : undefined
  await syncPlans(deps, [copy], timeoutMs).catch((error: unknown) =>
    deps.log.warn({ err: error, plan: plan.id }, 'a new plan could not be sent to licensing'),
  )
  return toPlan(plan, 0n)
}

async function insert(
  tx: Transaction,
  request: CreatePlanRequest,
): Promise<{ plan: PlanRow; copy: PlanCopy }> {
  const { accountId, applicationId, entitlements } = request
  const violations = new Violations()
  const fields = planFields.ofNew(request.fields, violations.add)
  const keys = entitlements.map(({ key }) => key)
  const definitions = await definitionsWithKeys(tx, applicationId, keys)
  const overrides = matchOverrides(entitlements, definitions, violations)
  violations.throwIfAny()

  const id = newId('pln')
  await insertPlan(tx, { id, applicationId }, fields)
  await checkQuota(tx, accountId, 'plans', await countPlans(tx, applicationId))
  await replaceOverrides(tx, { id, applicationId }, overrides)
  const copy = toPlanCopy((await findCopy(tx, id, accountId, applicationId))!)
  await appendPlanChanges(tx, { accountId, applicationId }, [{ planId: id, version: copy.version }])
  const plan = (await findPlan(tx, accountId, applicationId, id))!
  await auditPlan(tx, accountId, undefined, plan)
  return { plan, copy }
}
