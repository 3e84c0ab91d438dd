import type { Schemas } from '@licensing/sdk/backend'
import { api } from './client.ts'
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
