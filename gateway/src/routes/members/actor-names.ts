import { z } from 'zod'
import { isId } from '../../fields/id.ts'
import type { VendorCall } from '../../route.ts'

export const actorName = z
  .string()
  .nullable()
  .describe('The name or address of the person, or the name of the API key; null for other actors.')

/** The names of the API keys and members among these actors, by id. */
export async function namesOf(
  { services, accountId }: Pick<VendorCall, 'services' | 'accountId'>,
  rows: readonly { actor: string }[],
): Promise<Readonly<Record<string, string>>> {
  const actorIds = [...new Set(rows.map(({ actor }) => actor))].filter(
    (id) => isId('key', id) || isId('usr', id),
  )
  if (actorIds.length === 0) return {}
  return (await services.catalog.nameActors({ accountId, actorIds })).names
}
