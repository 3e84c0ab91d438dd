import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/idempotency/repeatable'
import { ActivateOfflineResponseSchema, ProductService } from '@licensing/proto/products'
import { activateOffline } from './activations/activate-offline.ts'
import { activate } from './activations/activate.ts'
import { authenticate } from './activations/authenticate.ts'
import { deactivate } from './activations/deactivate.ts'
import type { ProductDependencies } from './product-dependencies.ts'
import { placeGiver } from './activations/give-place.ts'
import { revocationLists } from './revocations/get-revocations.ts'
import { getSigningKeys } from './signing-keys/get-signing-keys.ts'
import { migrateLegacyKey } from './activations/migrate-legacy-key.ts'
import { recordCallHome } from './activations/record-call-home.ts'
import { refreshActivation } from './activations/refresh-activation.ts'

export function productService(deps: ProductDependencies) {
  const givePlace = placeGiver(deps)
  const repeatable = createRepeatable(deps)
  const lists = revocationLists(deps)
  return implement(ProductService, {
    activate: (request) => activate(deps, givePlace, request),
    activateOffline: repeatable(ActivateOfflineResponseSchema, (request) =>
      activateOffline(deps, givePlace, request),
    ),
    refreshActivation: (request) => refreshActivation(deps, request),
    recordCallHome: async (request) => {
      await recordCallHome(deps, await authenticate(deps, request), request)
      return {}
    },
    deactivate: (request) => deactivate(deps, request),
    checkActivation: async (request) => {
      await authenticate(deps, request)
      return {}
    },
    getRevocations: (request) => lists.get(request),
    getRevocationsPart: (request) => lists.part(request),
    getSigningKeys: (request) => getSigningKeys(deps, request),
    migrateLegacyKey: (request) => migrateLegacyKey(deps, request),
  })
}
