import { isUnimplemented, ServiceError } from '@licensing/grpc/errors'
import type { Services } from '../../services.ts'

const tries = 3

/** The newest root key of each application, in their order. */
export async function rootKeysOf(services: Services, applicationIds: string[]): Promise<string[]> {
  if (applicationIds.length === 0) return []
  for (let failed = 0; ;) {
    try {
      return (await services.rootKeys.getRootKeys({ applicationIds })).rootKeys
    } catch (error) {
      if (!isUnimplemented(error)) throw error
      // During an upgrade replicas of the release before do not have the RPC; the next call goes to another.
      failed += 1
      if (failed === tries) throw new ServiceError('unavailable', 'licensing is being upgraded: try again')
    }
  }
}
