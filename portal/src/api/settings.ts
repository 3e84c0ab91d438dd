import { LicensingApiError, type Schemas } from '@licensing/sdk/backend'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { allOf, api } from './client.ts'
import type { PagedList } from './paged-list.ts'
import { useSession } from './session.ts'

export type ApiKey = Schemas['ApiKey']
export type Processor = Schemas['Processor']

export const apiKeyList: PagedList<ApiKey> = {
  key: ['api-keys'],
  load: (page, signal) => api.get('/v1/api-keys', { query: page, signal }),
}

export const accountQuery = queryOptions({
  queryKey: ['account'],
  queryFn: ({ signal }) => api.get('/v1/account', { signal }),
})

/** Null if no processor is connected. */
export const processorQuery = queryOptions({
  queryKey: ['processor'],
  queryFn: async ({ signal }): Promise<Processor | null> => {
    try {
      return await api.get('/v1/processor', { signal })
    } catch (error) {
      if (error instanceof LicensingApiError && error.status === 404) return null
      throw error
    }
  },
})

export const keyNamesQuery = queryOptions({
  queryKey: ['key-names'],
  queryFn: async ({ signal }) => {
    const keys = await allOf(api.rows('/v1/api-keys', { query: { limit: 200 }, signal }))
    return new Map(keys.map(({ id, name }) => [id, name]))
  },
  staleTime: 60_000,
})

/** The name of an API key by its id, also if it is revoked; undefined if the signed-in key may not read it. */
export function useKeyNames(): (keyId: string) => string | undefined {
  const { own, can } = useSession()
  const { data } = useQuery({ ...keyNamesQuery, enabled: can('admin') && own.app_id === null })
  return (keyId) => (keyId === own.id ? own.name : data?.get(keyId))
}
