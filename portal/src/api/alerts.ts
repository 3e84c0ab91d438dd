import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { api } from './client.ts'

export type Alert = Schemas['Alert']

/** The newest alerts of all that the key reaches. */
export const alertsQuery = queryOptions({
  queryKey: ['alerts'],
  queryFn: async ({ signal }) => (await api.get('/v1/alerts', { query: { limit: 20 }, signal })).data,
  refetchInterval: 15_000,
})
