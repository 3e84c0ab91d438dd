import { implement } from '@licensing/grpc/server'
import { ProductService } from '@licensing/proto/products'
import { activate } from './activate.ts'
import type { ProductDeps } from './dependencies.ts'
import { revocationLists } from './get-revocations.ts'
import { migrateLegacyKey } from './migrate-legacy-key.ts'
import { deactivate, recordCallHome, refreshActivation } from './refresh-activation.ts'

export function productService(deps: ProductDeps) {
  return implement(ProductService, {
    activate: (request) => activate(deps, request),
    refreshActivation: (request) => refreshActivation(deps, request),
    recordCallHome: async (request) => {
      await recordCallHome(deps, request)
      return {}
    },
    deactivate: (request) => deactivate(deps, request),
    getRevocations: revocationLists(deps),
    getSigningKeys: async ({ applicationId }) => {
      const { publicJwks } = await deps.keys.of(applicationId)
      return { jwksJson: JSON.stringify({ keys: publicJwks }) }
    },
    migrateLegacyKey: (request) => migrateLegacyKey(deps, request),
  })
}
