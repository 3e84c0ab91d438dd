import { implement } from '@licensing/grpc/server'
import { ProductService } from '@licensing/proto/products'
import { activator } from './activate.ts'
import { authenticate } from './authenticate.ts'
import type { ProductDeps } from './dependencies.ts'
import { revocationLists } from './get-revocations.ts'
import { getSigningKeys } from './get-signing-keys.ts'
import { migrateLegacyKey } from './migrate-legacy-key.ts'
import { deactivate, recordCallHome, refreshActivation } from './refresh-activation.ts'

export function productService(deps: ProductDeps) {
  return implement(ProductService, {
    activate: activator(deps),
    refreshActivation: (request) => refreshActivation(deps, request),
    recordCallHome: async (request) => {
      await recordCallHome(deps, request)
      return {}
    },
    deactivate: (request) => deactivate(deps, request),
    checkActivation: async (request) => {
      await authenticate(deps, request)
      return {}
    },
    getRevocations: revocationLists(deps),
    getSigningKeys: (request) => getSigningKeys(deps, request),
    migrateLegacyKey: (request) => migrateLegacyKey(deps, request),
  })
}
