import { within } from '../../route.ts'
import type { Services } from '../../services.ts'

interface EntitlementDefCall {
  services: Services
  accountId: string
  params: { readonly app_id: string; readonly ent_id: string }
}

/** The account, application and definition that a call is about. */
export function ofEntitlementDef(call: EntitlementDefCall) {
  return { ...within(call), entitlementDefId: call.params.ent_id }
}

export function findEntitlementDef(call: EntitlementDefCall) {
  return call.services.catalog.getEntitlementDefinition(ofEntitlementDef(call))
}
