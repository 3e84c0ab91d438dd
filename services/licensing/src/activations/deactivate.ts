import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import { transaction } from '@licensing/database/transaction'
import type { DeactivateRequest } from '@licensing/proto/products'
import { byProduct, freeActivation } from './activation-queries.ts'
import { authenticate, noActivation } from './authenticate.ts'
import type { ProductDependencies } from '../product-dependencies.ts'

/** Frees the activation; `freeActivation` says when its place is free. */
export async function deactivate(
  deps: ProductDependencies,
  request: DeactivateRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  const found = await authenticate(deps, request)
  const licence = { accountId: found.account_id, licenceId: found.id }
  const freed = await deps.patience((hurry) =>
    transaction(deps.sql, (tx) => {
      hurry(tx)
      return freeActivation(tx, licence, found.activation_id, byProduct)
    }),
  )
  if (!freed) throw noActivation()
  return {}
}
