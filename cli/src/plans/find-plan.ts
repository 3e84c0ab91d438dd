import type { LicensingBackend, Schemas } from '@licensing/sdk/backend'
import { Refusal } from '../command/failures.ts'

/** The id of a plan that is named by its id or code. */
export async function findPlanId(backend: LicensingBackend, appId: string, plan: string): Promise<string> {
  return plan.startsWith('pln_') ? plan : (await findPlan(backend, appId, plan)).id
}

/** @throws Refusal if no plan has the code */
export async function findPlan(
  backend: LicensingBackend,
  appId: string,
  plan: string,
): Promise<Schemas['Plan']> {
  const path = { app_id: appId }
  if (plan.startsWith('pln_')) {
    return backend.get('/v1/apps/{app_id}/plans/{plan_id}', { path: { ...path, plan_id: plan } })
  }
  for await (const found of backend.rows('/v1/apps/{app_id}/plans', { path })) {
    if (found.code === plan) return found
  }
  throw new Refusal('not_found', `no plan has the code ${plan}: licensing plans list shows all`)
}
