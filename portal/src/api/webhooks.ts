import type { Schemas } from '@licensing/sdk/backend'
import type { WebhookEventType } from '@licensing/sdk/webhooks'
import { queryOptions } from '@tanstack/react-query'
import { allOf, api } from './client.ts'
import { given, membersOf, type PagedList } from './paged-list.ts'

export type WebhookEndpoint = Schemas['WebhookEndpoint']
export type WebhookDelivery = Schemas['WebhookDelivery']
type Attempt = Schemas['WebhookDeliveryDetail']['attempts'][number]

export const deliveryStatuses = membersOf<WebhookDelivery['status']>({
  pending: true,
  delivered: true,
  failed: true,
})

/** All endpoints of an application, including disabled ones, newest first. */
export const endpointsQuery = (appId: string) =>
  queryOptions({
    queryKey: ['endpoints', appId],
    queryFn: ({ signal }) =>
      allOf(
        api.rows('/v1/apps/{app_id}/webhook-endpoints', {
          path: { app_id: appId },
          query: { limit: 200 },
          signal,
        }),
      ),
    enabled: appId !== '',
  })

export const endpointQuery = (appId: string, endpointId: string) =>
  queryOptions({
    queryKey: ['endpoint', appId, endpointId],
    queryFn: ({ signal }) =>
      api.get('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', {
        path: { app_id: appId, endpoint_id: endpointId },
        signal,
      }),
    enabled: appId !== '',
  })

interface DeliveryFilters {
  status?: WebhookDelivery['status'] | undefined
  type?: WebhookEventType | undefined
  endpoint?: string | undefined
  licence?: string | undefined
}

export const deliveryList = (appId: string, filters: DeliveryFilters): PagedList<WebhookDelivery> => ({
  key: ['deliveries', appId, filters],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/webhook-deliveries', {
      path: { app_id: appId },
      query: { ...given(filters), ...page },
      signal,
    }),
})

/** All attempts, newest first. The delivery itself contains only the newest hundred. */
export const attemptList = (appId: string, deliveryId: string): PagedList<Attempt> => ({
  key: ['attempts', appId, deliveryId],
  load: (page, signal) =>
    api.get('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}/attempts', {
      path: { app_id: appId, delivery_id: deliveryId },
      query: page,
      signal,
    }),
})

export const deliveryQuery = (appId: string, deliveryId: string) =>
  queryOptions({
    queryKey: ['delivery', appId, deliveryId],
    queryFn: ({ signal }) =>
      api.get('/v1/apps/{app_id}/webhook-deliveries/{delivery_id}', {
        path: { app_id: appId, delivery_id: deliveryId },
        signal,
      }),
    enabled: appId !== '',
  })

export interface EndpointChange {
  url?: string
  subscribed_events?: string
  description?: string | null
  headers?: Record<string, string> | null
  plans?: string[] | null
  paused?: boolean
  signature?: WebhookEndpoint['signature']
}

export function changeEndpoint(
  appId: string,
  endpointId: string,
  body: EndpointChange,
): Promise<Schemas['UpdatedWebhookEndpoint']> {
  const path = { app_id: appId, endpoint_id: endpointId }
  return api.patch('/v1/apps/{app_id}/webhook-endpoints/{endpoint_id}', { path, body })
}
