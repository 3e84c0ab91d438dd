import type { Schemas } from '@licensing/sdk/backend'
import { api } from './client.ts'
import { given, type PagedList } from './paged-list.ts'

interface PaymentFilters {
  licence?: string | undefined
}

export const paymentList = (appId: string, filters: PaymentFilters = {}): PagedList<Schemas['Payment']> => ({
  key: ['payments', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/payments', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

export const refundList = (appId: string, filters: PaymentFilters = {}): PagedList<Schemas['Refund']> => ({
  key: ['refunds', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/refunds', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})
