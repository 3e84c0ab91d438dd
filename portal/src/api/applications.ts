import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions, useQuery, type UseQueryResult } from '@tanstack/react-query'
import { useAddress } from '../address.ts'
import { allOf, api } from './client.ts'
import { useSession } from './session.ts'

/** The applications that the key may use, oldest first. */
export const applicationsQuery = queryOptions({
  queryKey: ['applications'],
  queryFn: async ({ signal }) =>
    (await allOf(api.rows('/v1/apps', { query: { limit: 200 }, signal }))).toReversed(),
  staleTime: 60_000,
})

/** The application of the page: from the address, else the key's only application, else the oldest. */
export function useApplication(): {
  appId: string
  applications: readonly Schemas['Application'][]
  reading: UseQueryResult
} {
  const { own, can } = useSession()
  const [{ app }] = useAddress()
  const reading = useQuery({ ...applicationsQuery, enabled: can('read') || can('admin') })
  const { data: applications = [] } = reading
  return { appId: app ?? own.app_id ?? applications[0]?.id ?? '', applications, reading }
}
