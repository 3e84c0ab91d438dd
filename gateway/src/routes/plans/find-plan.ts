import { within } from '../../route.ts'
import type { Services } from '../../services.ts'

interface PlanCall {
  services: Services
  accountId: string
  params: { readonly app_id: string; readonly plan_id: string }
}

/** The account, application and plan that a call is about. */
export function ofPlan(call: PlanCall) {
  return { ...within(call), planId: call.params.plan_id }
}

export function findPlan(call: PlanCall) {
  return call.services.catalog.getPlan(ofPlan(call))
}
