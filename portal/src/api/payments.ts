import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions, useQuery } from '@tanstack/react-query'
import { api } from './client.ts'
import { given, membersOf, type PagedList } from './paged-list.ts'
import { plansQuery } from './plans.ts'

export interface MoneyFilters {
  licence?: string | undefined
  charge_ref?: string | undefined
  since?: string | undefined
  /** Before this time. */
  until?: string | undefined
}

export const paymentList = (appId: string, filters: MoneyFilters = {}): PagedList<Schemas['Payment']> => ({
  key: ['payments', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/payments', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

export const refundList = (appId: string, filters: MoneyFilters = {}): PagedList<Schemas['Refund']> => ({
  key: ['refunds', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/refunds', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

export type Checkout = Schemas['CheckoutSession']

export const checkoutStatuses = membersOf<Checkout['status']>({
  open: true,
  provisioned: true,
  provision_failed: true,
  expired: true,
  canceled: true,
})

export const checkoutList = (
  appId: string,
  filters: { status: Checkout['status'] | undefined },
): PagedList<Checkout> => ({
  key: ['checkouts', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/checkout-sessions', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

/** Provisions a paid session again, after the cause of its failure was removed. */
export function replayCheckout(appId: string, sessionId: string): Promise<Checkout> {
  return api.post('/v1/apps/{app_id}/checkout-sessions/{session_id}/replay', {
    path: { app_id: appId, session_id: sessionId },
  })
}

type Fee = Schemas['Fee']
export type SpendCap = Schemas['SpendCap']

export const feeList: PagedList<Fee> = {
  key: ['fees'],
  load: (page, signal) => api.get('/v1/fees', { query: page, signal }),
}

export const spendCapQuery = queryOptions({
  queryKey: ['spend-cap'],
  queryFn: ({ signal }) => api.get('/v1/spend-cap', { signal }),
})

/** Payments arrive without an action of the user. */
export const REFRESH_MS = 5000

/** The name of a plan by its id; the id while the name is not loaded. */
export function usePlanNames(appId: string): (planId: string) => string {
  const { data = [] } = useQuery(plansQuery(appId))
  const names = new Map(data.map(({ id, name }) => [id, name]))
  return (planId) => names.get(planId) ?? planId
}
