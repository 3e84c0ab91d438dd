import type { WebhookEndpoint } from '../../api/webhooks.ts'

/** An endpoint as people know it: its address, with its id where another has the same. */
export function endpointName(endpoints: readonly WebhookEndpoint[], id: string): string {
  const endpoint = endpoints.find((one) => one.id === id)
  if (!endpoint) return id
  const isAlone = endpoints.every((one) => one.id === id || one.url !== endpoint.url)
  return isAlone ? endpoint.url : `${endpoint.url} (${id})`
}
