import type { GetSigningKeysRequest } from '@licensing/proto/products'
import { checkApplicationId } from './application-id.ts'
import type { ProductDeps } from './dependencies.ts'

/** The public keys of an application, as a JSON Web Key Set. */
export async function getSigningKeys(
  { keys }: ProductDeps,
  { applicationId }: GetSigningKeysRequest,
): Promise<{ jwksJson: string }> {
  checkApplicationId(applicationId)
  const { publicJwks } = await keys.of(applicationId)
  return { jwksJson: JSON.stringify({ keys: publicJwks }) }
}
