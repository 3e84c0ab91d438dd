import type { Schemas } from '@licensing/sdk/backend'
import { api } from './client.ts'
import { given, type PagedList } from './paged-list.ts'

export type Checkout = Schemas['CheckoutSession']

export const checkoutStatuses: readonly Checkout['status'][] = [
  'open',
  'provisioned',
  'provision_failed',
  'expired',
  'canceled',
]

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

/** Provisions a paid session whose cause of failure is gone. */
export function replayCheckout(appId: string, sessionId: string): Promise<Checkout> {
  return api.post('/v1/apps/{app_id}/checkout-sessions/{session_id}/replay', {
    path: { app_id: appId, session_id: sessionId },
  })
}
