import { implement } from '@licensing/grpc/server'
import { PurchaseService } from '@licensing/proto/purchases'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPurchaseEffects } from './apply-purchase-effects.ts'

export function purchaseService(deps: LicensingDependencies) {
  return implement(PurchaseService, {
    applyPurchaseEffects: (request) => applyPurchaseEffects(deps, request),
  })
}
