import type { Outcome } from '../outcome.ts'
import { groupBy, same } from './rule.ts'
import type { Rule, Sentences } from './rule.ts'

/** Each change has one entry in the audit log, and each entry is of a change. */
export const entries: Rule = function* (outcome) {
  const of = (operation: string) => outcome.auditLog.filter((entry) => entry.operation === operation)
  const idsOf = (operation: string) => of(operation).map(({ resourceId }) => resourceId)
  const match = (what: string, changed: string[], operation: string): Sentences =>
    same(`the entry ${operation} of ${what}`, changed, idsOf(operation))
  const ids = (rows: { id: string }[]) => rows.map(({ id }) => id)
  const { apiKeys, catalogPlans, definitions, endpoints, events } = outcome

  // The operator's command that creates an account creates its first key.
  const requested = apiKeys.filter(({ name }) => name !== 'licensing-admin')
  yield* match('key', ids(requested), 'createApiKey')
  yield* match('key', ids(apiKeys.filter(({ revoked }) => revoked)), 'revokeApiKey')
  yield* match('plan', ids(catalogPlans), 'createPlan')
  const deleted = idsOf('deleteEntitlementDefinition')
  yield* match('definition', [...ids(definitions), ...deleted], 'createEntitlementDefinition')
  yield* match('endpoint', ids(endpoints), 'createWebhookEndpoint')
  const disabled = (reason: string) => ids(endpoints.filter((each) => each.disabledReason === reason))
  yield* match('endpoint', disabled('deleted'), 'deleteWebhookEndpoint')
  yield* match('endpoint', disabled('retries_exhausted'), 'disableEndpoint')
  const tests = events.filter(({ type }) => type === 'webhook.test').map(({ appId }) => appId)
  yield* same(
    'the entry sendTestEvent of application',
    tests,
    of('sendTestEvent').map(({ appId }) => String(appId)),
  )
  yield* lastValues(outcome)
}

/** The last entry of a field has the value that the resource has. */
function* lastValues({ auditLog, plans, capMinor }: Outcome): Sentences {
  const ofResource = groupBy(auditLog, ({ resourceId }) => resourceId)
  const last = (id: string, field: string) =>
    ofResource
      .get(id)
      ?.flatMap(({ changes }) => changes[field] ?? [])
      .at(-1)?.to ?? null
  const found = [
    ...plans.flatMap(({ id, name, status }) => [
      [id, 'name', name],
      [id, 'status', status],
    ]),
    ...capMinor.map((cap) => [cap.accountId, 'cap_minor', cap.capMinor]),
  ] as [string, string, unknown][]
  for (const [id, field, value] of found)
    if (last(id, field) !== value)
      yield `${field} of ${id} is ${JSON.stringify(value)}, and ${JSON.stringify(last(id, field))} in its last entry`
}
