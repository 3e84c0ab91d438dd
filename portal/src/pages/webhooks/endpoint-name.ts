import type { WebhookEndpoint } from '../../api/webhooks.ts'

/** The name of an endpoint: its URL, with its id if another endpoint has the same URL. */
export function endpointName(endpoints: readonly WebhookEndpoint[], id: string): string {
  const endpoint = endpoints.find((one) => one.id === id)
  if (!endpoint) return id
  const isAlone = endpoints.every((one) => one.id === id || one.url !== endpoint.url)
  return isAlone ? endpoint.url : `${endpoint.url} (${id})`
}
