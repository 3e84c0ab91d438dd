import { LicensingApiError, type Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import type { PagedList } from './paged-list.ts'

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
