import type { JsonSchema } from './schema-book.ts'

/** Descriptions by the name of a property or parameter. A schema with a description of its own keeps it. */
const meanings: Readonly<Record<string, string>> = {
  account_id: 'The vendor’s account.',
  activation_id: 'The activation: one installation of the product.',
  amount: 'Minor units of `currency`.',
  api_version: 'The date of the event schema.',
  app_id: 'The application.',
  application_id: 'The application.',
  at: 'When it happened.',
  attempt: 'Number of the attempt, starting at 1.',
  attempt_count: 'Number of attempts.',
  attempts: 'The newest 100 attempts.',
  charge_ref: 'The charge’s id at the payment processor.',
  code: 'Code of the plan, unique in the application.',
  connected_account: 'The vendor’s account at the processor.',
  connected_at: 'When the account was connected.',
  created: 'Number of items created.',
  created_at: 'When it was created.',
  currency: 'ISO 4217, in lower case.',
  data: 'The rows, newest first.',
  default:
    'Value for plans that do not set their own: `true` or `false` for a feature, a whole number for a limit.',
  delivered: 'Deliveries that the endpoint answered with 2xx.',
  delivery_id: 'The delivery of one event to one endpoint.',
  detail: 'What is wrong and what to do.',
  disabled_at: 'When it was disabled; null while it is enabled.',
  disabled_reason: 'Why it was disabled; null while it is enabled.',
  display_name: 'Display name. Default: the key.',
  domains:
    'Host names on which the product may run. `*.example.com` matches all subdomains at any depth, but not `example.com`.',
  downgraded: 'Licences that were downgraded.',
  duration_ms: 'Duration of the attempt, in milliseconds.',
  endpoint_id: 'The webhook endpoint.',
  ent_id: 'The entitlement definition.',
  entitlement_def_id: 'The entitlement definition.',
  entitlements: 'The values that the plan sets. All other entitlements have their default.',
  error: 'Why the item failed; null otherwise.',
  event_id: 'The event: `id` in its envelope, the same for every endpoint and attempt.',
  event_type: 'The type of the event.',
  existing: 'Number of items imported before.',
  expired: 'Licences that expired.',
  external_ref: 'The vendor’s customer reference.',
  failed: 'Number of items that failed.',
  failed_attempts: 'Attempts without a 2xx response.',
  fee_minor: 'The service’s transaction fee, minor units of `currency`.',
  fingerprint: 'Identifies the machine; chosen by the product.',
  from: 'Previous value.',
  health: 'State of its deliveries.',
  host: 'Name of the machine on which the product runs; kept in lower case. A name that is no host name matches no entry of `domains`.',
  id: 'The id.',
  imported: 'Licences that were imported.',
  issued: 'Licences that were issued through the API.',
  key: 'Key of the entitlement.',
  key_id: 'The API key.',
  keys: 'The public keys (JWK, Ed25519) that verify tokens and revocation lists.',
  kind: '`feature`: true or false. `limit`: a whole number.',
  lane: 'Kind of the refund.',
  last_failure_at: 'Time of the latest failed attempt; null if there was none.',
  last_response_code: 'HTTP status of the latest attempt; null if there was no response.',
  last_seen_at: 'Time of the last call-home.',
  last_success_at: 'Time of the latest 2xx response; null if there was none.',
  last_used_at: 'When the key was last used; null if never.',
  lease_minutes: 'Duration of a lease in minutes. Default: 15.',
  legacy_key:
    'Key of the licence in the previous system. Blanks and invisible characters at both ends are removed.',
  licence: 'The licence, as in lists.',
  licence_id: 'The licence.',
  licence_key:
    'The licence key. Case, hyphens, blanks and invisible characters do not count; O is read as 0, I and L as 1.',
  licence_value: 'Value in the licence; null if it does not have the key.',
  max_activations: 'Maximum number of activations at the same time. Default: no maximum.',
  max_concurrent:
    'Maximum number of activations that hold a lease at the same time, which makes the licence floating. Default: it is not.',
  max_seats: 'Maximum number of seats, enforced by the product. Default: no maximum.',
  message: 'What is wrong with the field.',
  metadata: 'The vendor’s own entries: text by name.',
  metric: 'The metric.',
  mode: '`payment`: a one-off payment. `subscription`: a payment in every period.',
  name: 'Display name.',
  new: 'Installations that were activated.',
  next_attempt_at: 'Time of the next attempt; null if there is none.',
  object: 'Depends on the event type: identifiers and statuses, no customer data.',
  occurred_at: 'Time at the processor or the shop.',
  p95_ms: '95th percentile of that time, in milliseconds; null if nothing was delivered.',
  period: 'The month in UTC, `YYYY-MM`.',
  period_months:
    'Duration in months of a one-off payment’s licence; null if it never expires or for a subscription.',
  plan_id: 'The plan.',
  plan_value: 'Current value of the plan; null if the key no longer exists.',
  pointer: 'JSON Pointer of the field in the body.',
  points: 'One point for each step, including steps without data.',
  previous: 'The previous plan for `licence.plan_changed`; null for other types.',
  price_id: 'The price’s id at the payment processor.',
  processor: 'The payment processor.',
  product_version: 'The version of the product.',
  reached_at: 'When the cap was reached in this period; null if it was not.',
  reactivated: 'Licences that became active again.',
  received: 'The event is stored and will be processed.',
  request_id: 'Id of the request, as in `X-Request-Id`. Include it when you ask for support.',
  response_code: 'HTTP status of the response; null if there was none.',
  response_excerpt: 'The first KiB of the response body.',
  restrictions: 'Restrictions of the licence; null if there are none.',
  result: 'Result of the item.',
  retired: 'Licences that were retired.',
  revoked: 'Licences that were revoked.',
  revoked_at: 'When the key was revoked; null if it is not.',
  sale_id: 'Id of the sale in the other shop.',
  scopes: 'Scopes of the key; none includes another.',
  seen_at: 'Time of the call-home.',
  session_id: 'The checkout session.',
  spent_minor: 'Fees of the period, less credits, in minor units.',
  status: 'The status.',
  step: 'Length of a step.',
  subscribed_events: '`*`, or event types separated by commas.',
  summary: 'Number of items by result.',
  suspended: 'Licences that were suspended.',
  title: 'Short name of the error.',
  to: 'New value.',
  type: 'What happened.',
  updated_at: 'When it was last changed.',
  updates_months:
    'How many months of updates a payment includes; null if a payment does not change `updates_until`.',
  url: 'The https URL that receives deliveries.',
  value: '`true` or `false` for a feature, a whole number for a limit.',
  version: 'Grows with each revocation.',
}

/** Exceptions, by schema or operation and the path of names in it. */
const exceptions: Readonly<Record<string, string>> = {
  'ImportResult.items.error.code': 'An error code: `not_found`, `plan_archived` or `validation_failed`.',
  'Problem.code': 'Error code. Use it in programs.',
  'Problem.status': 'The HTTP status.',
  'Licence.key': 'The licence key for the customer.',
  'LicenceDetail.key': 'The licence key for the customer.',
  'Fee.kind': '`charge` of a payment, `credit` of a refund, `reversal` of a credit.',
  'Alert.kind': 'Kind of the alert.',
  'listAuditLog.actor': 'Who changed it.',
  'listAuditLog.operation': 'What was done, such as `createPlan`. An unknown one matches no entry.',
  'WebhookDeliveryDetail.attempts.error': 'Why there was no valid response; null otherwise.',
  'LicenceHistoryEntry.to': 'New status.',
  'readMetrics.from': 'The first day (UTC).',
  'readMetrics.to': 'The last day (UTC), inclusive.',
  'listEvents.data': 'The events, in order of `sequence`.',
  'Event.type': 'The type of the event.',
  'Event.data': 'Holds `object`.',
  'Revocations.revoked': 'Ids of revoked licences: all, or with `since` those added after that version.',
}

/** Gives every property without a description the description of its name. */
export function describeProperties(owner: string, schema: unknown): void {
  if (typeof schema !== 'object' || schema === null) return
  const { properties, ...rest } = schema as JsonSchema
  for (const [name, property] of Object.entries(properties ?? {})) {
    const meaning = property.description ?? meaningOf(owner, name)
    if (meaning !== undefined) property.description = meaning
    describeProperties(`${owner}.${name}`, property)
  }
  for (const part of Object.values(rest)) describeProperties(owner, part)
}

/** The description of a name in a schema or an operation. */
export function meaningOf(owner: string, name: string): string | undefined {
  return exceptions[`${owner}.${name}`] ?? meanings[name]
}
