import { ServiceError } from '@licensing/grpc/errors'
import type { CatalogDependencies } from '../dependencies.ts'

/** Active licences of each plan, in the order asked: exact, so it is licensing that counts. */
export async function countActiveLicences(
  { licensing }: CatalogDependencies,
  planIds: string[],
): Promise<bigint[]> {
  if (planIds.length === 0) return []
  try {
    const { counts } = await licensing.calls.countActiveLicences({ planIds })
    return planIds.map((_, at) => counts[at] ?? 0n)
  } catch (cause) {
    throw new ServiceError('unavailable', 'active licences cannot be counted at the moment: try again', {
      cause,
    })
  }
}
