import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import type { PlanCopy, PlanSchema, UpdatePlanRequest } from '@licensing/proto/catalog'
import { changeApplication } from '../applications/applications.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { definitionsWithKeys } from '../entitlements/definition-queries.ts'
import { appendPlanChanges, checkLicensingAvailable, syncPlans } from '../plan-copies/plan-changes.ts'
import { findCopy } from '../plan-copies/plan-copy-queries.ts'
import { differs, toPlanCopy } from '../plan-copies/plan-copy.ts'
import { notFound, Violations } from '../refusals.ts'
import { countActiveLicences } from './read-plans.ts'
import { matchOverrides, sameOverrides, checkCode, codeTaken, toPlan } from './plan.ts'
import type { PlanRow } from './plan.ts'
import { findPlan, raiseVersion, replaceOverrides, updatePlanRow } from './plan-queries.ts'

/** Updates a plan, also a retired one. Answers when licensing has the change, so that later licences use it. */
export async function updatePlan(
  deps: CatalogDependencies,
  request: UpdatePlanRequest,
): Promise<MessageInitShape<typeof PlanSchema>> {
  await checkLicensingAvailable(deps)
  const { plan, copy } = await changeApplication(deps, request, (tx) => update(tx, request)).catch(
    (error: unknown) => {
      throw brokenConstraint(error) === 'plans_code' ? codeTaken(request.code ?? '') : error
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
  const name = request.name ?? before.name
  const code = request.code ?? before.code
  const overrides = await wantedOverrides(tx, request)
  // Interface 4.2: if absent, the overrides stay. If present, even if empty, they replace all.
  const replaces = overrides !== undefined && !sameOverrides(before.overrides, overrides)
  if (replaces) await replaceOverrides(tx, { id: planId, applicationId }, overrides)
  if (replaces || name !== before.name || code !== before.code)
    await updatePlanRow(tx, planId, { name, code })
  const copy = await raiseIfChanged(tx, request, copyBefore)
  return { plan: (await findPlan(tx, accountId, applicationId, planId))!, copy }
}

/** Gives the plan a new version if a value that licensing copies has changed. @returns the current copy */
async function raiseIfChanged(
  tx: Transaction,
  request: UpdatePlanRequest,
  before: PlanCopy,
): Promise<PlanCopy> {
  if (!differs(before, await readCopy(tx, request))) return before
  await raiseVersion(tx, request.planId)
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

async function wantedOverrides(
  tx: Transaction,
  { applicationId, name, code, entitlements }: UpdatePlanRequest,
): Promise<{ definitionId: string; value: string }[] | undefined> {
  const violations = new Violations()
  if (name !== undefined) violations.checkName('/name', name)
  if (code !== undefined) checkCode(violations, code)
  const inputs = entitlements?.overrides
  const keys = inputs?.map(({ key }) => key) ?? []
  const overrides =
    inputs && matchOverrides(inputs, await definitionsWithKeys(tx, applicationId, keys), violations)
  violations.throwIfAny()
  return overrides
}
