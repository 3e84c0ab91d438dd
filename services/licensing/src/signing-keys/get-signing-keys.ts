import type { GetSigningKeysRequest } from '@licensing/proto/products'
import { checkApplicationId } from '../activations/authenticate.ts'
import type { ProductDependencies } from '../product-dependencies.ts'

/** The public keys of an application, as a JSON Web Key Set, and the same set signed by each of its root keys. */
export async function getSigningKeys(
  { publishedKeys }: ProductDependencies,
  { applicationId }: GetSigningKeysRequest,
): Promise<{ jwksJson: string }> {
  checkApplicationId(applicationId)
  return { jwksJson: JSON.stringify(await publishedKeys(applicationId)) }
}
