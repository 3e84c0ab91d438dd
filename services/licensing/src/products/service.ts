import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import { ActivateOfflineResponseSchema, ProductService } from '@licensing/proto/products'
import { activateOffline } from './activate-offline.ts'
import { activate } from './activate.ts'
import { authenticate } from './authenticate.ts'
import { deactivate } from './deactivate.ts'
import type { ProductDependencies } from './dependencies.ts'
import { placeGiver } from './give-place.ts'
import { revocationLists } from './get-revocations.ts'
import { getSigningKeys } from './get-signing-keys.ts'
import { migrateLegacyKey } from './migrate-legacy-key.ts'
import { recordCallHome } from './record-call-home.ts'
import { refreshActivation } from './refresh-activation.ts'

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
