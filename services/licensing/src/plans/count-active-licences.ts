import type { CountActiveLicencesRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { countActive } from './plan-queries.ts'

export async function countActiveLicences(
  { sql }: LicensingDependencies,
  { planIds }: CountActiveLicencesRequest,
): Promise<{ counts: bigint[] }> {
  if (planIds.length === 0) return { counts: [] }
  const active = await countActive(sql, planIds)
  return { counts: planIds.map((id) => active.get(id) ?? 0n) }
}
