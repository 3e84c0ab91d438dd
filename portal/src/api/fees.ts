import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'
import type { PagedList } from './paged-list.ts'

export type Fee = Schemas['Fee']
export type SpendCap = Schemas['SpendCap']

export const feeList: PagedList<Fee> = {
  key: ['fees'],
  load: (page, signal) => api.get('/v1/fees', { query: page, signal }),
}

export const spendCapQuery = queryOptions({
  queryKey: ['spend-cap'],
  queryFn: ({ signal }) => api.get('/v1/spend-cap', { signal }),
})
