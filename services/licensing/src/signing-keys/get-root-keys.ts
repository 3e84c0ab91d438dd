import { invalid } from '@licensing/grpc/errors'
import type { GetRootKeysRequest } from '@licensing/proto/root-keys'
import { checkApplicationId } from '../activations/authenticate.ts'
import type { RootKeyDependencies } from '../root-key-dependencies.ts'
import { ensureRootKeys } from './ensure-root-keys.ts'

// A page of applications, and some more.
const mostApplications = 1_000

/** The newest root key of each application, in the order asked. */
export async function getRootKeys(
  { sql, encryption }: RootKeyDependencies,
  { applicationIds }: GetRootKeysRequest,
): Promise<{ rootKeys: string[] }> {
  if (applicationIds.length > mostApplications) {
    throw invalid('/application_ids', `must be at most ${mostApplications}`)
  }
  applicationIds.forEach(checkApplicationId)
  const known = await ensureRootKeys(sql, encryption, applicationIds)
  return { rootKeys: applicationIds.map((id) => known.get(id)!) }
}
