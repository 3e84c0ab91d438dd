import type { Schemas } from '@licensing/sdk/backend'
import { queryOptions } from '@tanstack/react-query'
import { allOf, api } from './client.ts'
import { given, type PagedList } from './paged-list.ts'

export type AuditLogEntry = Schemas['AuditLogEntry']

export interface AuditLogFilters {
  actor: string | undefined
  operation: string | undefined
}

export const auditLog = (filters: AuditLogFilters): PagedList<AuditLogEntry> => ({
  key: ['audit-log', filters],
  load: (page, signal) => api.get('/v1/audit-log', { query: { ...given(filters), ...page }, signal }),
})

/** Members and API keys with their names, also those that were removed or revoked. */
export const actorsQuery = queryOptions({
  queryKey: ['actors'],
  queryFn: async ({ signal }): Promise<(readonly [id: string, name: string])[]> => {
    const request = { query: { limit: 200 }, signal }
    const [members, keys] = await Promise.all([
      allOf(api.rows('/v1/members', request)),
      allOf(api.rows('/v1/api-keys', request)),
    ])
    return [
      ...members.map((one) => [one.id, one.name ?? one.email] as const),
      ...keys.map(({ id, name }) => [id, name] as const),
    ]
  },
  staleTime: 60_000,
})

/** Operations that the log has, in the order of the filter. */
export const auditedOperations: readonly string[] = [
  'signIn',
  'createMember',
  'updateMember',
  'removeMember',
  'createApiKey',
  'revokeApiKey',
  'updateAccount',
  'confirmAlertEmail',
  'createApplication',
  'updateApplication',
  'createEntitlementDefinition',
  'updateEntitlementDefinition',
  'deleteEntitlementDefinition',
  'createPlan',
  'updatePlan',
  'archivePlan',
  'restorePlan',
  'setPrice',
  'deletePrice',
  'createWebhookEndpoint',
  'updateWebhookEndpoint',
  'deleteWebhookEndpoint',
  'disableEndpoint',
  'rotateWebhookSecret',
  'sendTestEvent',
  'recoverWebhookEndpoint',
  'connectProcessor',
  'releaseProcessor',
  'setSpendCap',
  'createCustomerSession',
  'endCustomerSessions',
]
