import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import type { PlanCopy, UpdatePlanRequest } from '@licensing/proto/catalog'
import { changeApplication } from '../applications/applications.ts'
import type { Handler } from '../dependencies.ts'
import { definitionsWithKeys } from '../entitlements/definition-queries.ts'
import { appendPlanChanges, checkLicensingAvailable, syncPlans } from '../plan-copies/plan-changes.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { differs, toPlanCopy } from '../plan-copies/plan-copy.ts'
import { notFound, Violations } from '../refusals.ts'
import { countActiveLicences } from './read-plans.ts'
import { auditPlan, matchOverrides, sameOverrides, codeTaken, toPlan } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { planFields } from './plan-fields.ts'
import type { FieldColumns } from './plan-fields.ts'
import { findPlan, incrementVersion, replaceOverrides, updatePlanRow } from './plan-queries.ts'

/** Updates a plan, also a retired one. Answers when licensing has the change, so that later licences use it. */
export const updatePlan: Handler<'updatePlan'> = async (deps, request) => {
  await checkLicensingAvailable(deps)
  const { plan, copy } = await changeApplication(deps, request, (tx) => update(tx, request)).catch(
    (error: unknown) => {
      throw brokenConstraint(error) === 'plans_code' ? codeTaken(request.fields?.code ?? '') : error
    },
  )
  // Even if nothing changed: an earlier call may have saved the change without reaching licensing.
  await syncPlans(deps, [copy])
  const [count] = await countActiveLicences(deps, [plan.id])
  return toPlan(plan, count!)
}

async function update(
  tx: Transaction,
  request: UpdatePlanRequest,
): Promise<{ plan: PlanRow; copy: PlanCopy }> {
  const { accountId, applicationId, planId } = request
  const before = isId('pln', planId) ? await findPlan(tx, accountId, applicationId, planId) : undefined
  if (!before) throw notFound('plan', planId)
  const copyBefore = await readCopy(tx, request)
  const { fields, overrides } = await wanted(tx, request, before)
  // docs/guides/entitlements.md, "Define entitlements and plans": if absent, the overrides stay. If present, even if empty, they replace all.
  const replaces = overrides !== undefined && !sameOverrides(before.overrides, overrides)
  if (replaces) await replaceOverrides(tx, { id: planId, applicationId }, overrides)
  await updatePlanRow(tx, planId, fields, replaces)
  const copy = await incrementIfChanged(tx, request, copyBefore)
  const plan = (await findPlan(tx, accountId, applicationId, planId))!
  await auditPlan(tx, accountId, before, plan)
  return { plan, copy }
}

/** Gives the plan a new version if a value that licensing copies has changed. @returns the current copy */
async function incrementIfChanged(
  tx: Transaction,
  request: UpdatePlanRequest,
  before: PlanCopy,
): Promise<PlanCopy> {
  if (!differs(before, await readCopy(tx, request))) return before
  await incrementVersion(tx, request.planId)
  const copy = await readCopy(tx, request)
  const { accountId, applicationId } = request
  await appendPlanChanges(tx, { accountId, applicationId }, [{ planId: copy.id, version: copy.version }])
  return copy
}

async function readCopy(
  tx: Transaction,
  { accountId, applicationId, planId }: UpdatePlanRequest,
): Promise<PlanCopy> {
  return toPlanCopy((await findCopy(tx, planId, accountId, applicationId))!)
}

interface Wanted {
  fields: FieldColumns
  /** Absent: the overrides stay. */
  overrides: { definitionId: string; value: string }[] | undefined
}

/** @throws ServiceError `validation_failed` */
async function wanted(tx: Transaction, request: UpdatePlanRequest, before: PlanRow): Promise<Wanted> {
  const violations = new Violations()
  const changed = planFields.ofChange(before, request, violations.add)
  const inputs = request.entitlements?.overrides
  const keys = inputs?.map(({ key }) => key) ?? []
  const overrides =
    inputs && matchOverrides(inputs, await definitionsWithKeys(tx, request.applicationId, keys), violations)
  violations.throwIfAny()
  return { fields: { ...before, ...changed }, overrides }
}
