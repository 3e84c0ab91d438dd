import type { LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'
import type { JsonSchema, SchemaBook } from './schema-book.ts'
import { exampleEvent } from './webhooks.ts'

const token = 'eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCIsImtpZCI6InQ0X2…' as const

/**
 * Values of fields by name, or by schema and name if a name has several meanings. Any other field has the first example or
 * member of its schema.
 */
const values: Readonly<Record<string, unknown>> = {
  Event: exampleEvent('licence.suspended'),
  Restrictions: { domains: ['*.example.com'], max_activations: 3 },
  'Revocations.revoked': 'lic_01k9zj3v8qe5ktw2m4x6r7n8ab',
  'Revocations.more': false,
  accent_color: '#0b6e4f',
  active_licences: 12,
  activations_total: 1,
  actor: 'key_01k9zj3v8qe5ktw2m4x6r7n8ab',
  actor_name: 'shop backend',
  'AuditLogEntry.changes': { name: { from: 'Pro', to: 'Pro 2' } },
  operation: 'updatePlan',
  request_id: '5b0f4f6e-9c1d-4f0e-8a55-2f6f6b1d9c3a',
  resource_id: 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab',
  alert_email: 'alerts@example.com',
  alert_email_confirmed: true,
  'Alert.detail': 'six deliveries in a row failed; the last answer was 503',
  'OwnApiKey.id': 'usr_01k9zj3v8qe5ktw2m4x6r7n8ab',
  'Member.app_id': null,
  'Member.removed_at': null,
  email: 'ann@example.com',
  last_sign_in_at: '2026-11-01T12:00:00.000Z',
  role: 'support',
  attempt: 1,
  attempt_count: 1,
  'LicenceHistoryEntry.cause': 'suspend',
  'LicenceHistoryEntry.type': 'suspended',
  'LicenceHistoryEntry.from': 'active',
  'LicenceHistoryEntry.to': 'suspended',
  'LicenceHistoryEntry.changes': null,
  charge_ref: 'ch_3SExample',
  check_interval_seconds: 900,
  code: 'pro',
  connected_account: 'acct_1SExample',
  default: 'false',
  description: 'Shop backend',
  deliveries: 3,
  disabled_at: null,
  disabled_reason: null,
  disables_at: null,
  display_name: 'Export to PDF',
  duration_ms: 84,
  ends_on: '2027-01-31T00:00:00.000Z',
  'ImportResult.error': null,
  error: null,
  event_type: 'licence.suspended',
  'WebhookDelivery.status': 'delivered',
  'WebhookDeliveryDetail.status': 'delivered',
  expires_on: '2027-01-31T00:00:00.000Z',
  expiring_notice_days: 30,
  external_ref: 'customer-4711',
  failing_attempts: 0,
  failing_since: null,
  fee_bps: 100,
  fee_fixed_minor: 0,
  fee_minor: 49,
  'Fee.amount_minor': 49,
  'Refund.status': 'succeeded',
  scopes: 'issue',
  last_failure_at: null,
  expires_at: '2026-11-02T12:00:00.000Z',
  refresh_after: '2026-11-02T00:00:00.000Z',
  frees_left: 3,
  frees_per_day: 3,
  fingerprint: 'b1946ac92492d2347c6235b4d2611184',
  headers: { Authorization: null },
  host: 'workstation-7.example.com',
  key: 'export_pdf',
  'CustomerLicence.key': '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB',
  'Licence.key': '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB',
  'Migration.key': '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB',
  'LicenceDetail.key': '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB',
  'CreatedApiKey.key': 'lsk_…',
  key_sign_in: false,
  last_four: 'x7Qd',
  last_response_code: 204,
  lease_ends_at: null,
  leases_in_use: 0,
  legacy_key: 'OLD-0001',
  max_activations: 3,
  max_concurrent: null,
  licence_key: '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB',
  licence_value: null,
  livemode: false,
  mailed_at: '2026-11-01T12:00:03.000Z',
  metadata: { crm_id: 'A-1044' },
  name: 'Pro',
  'Account.name': 'Example Software',
  'CustomerLicence.name': 'Photo Editor',
  'CustomerSignInPage.name': 'Photo Editor',
  'CustomerSession.token': 'cst_…',
  'Application.name': 'Photo Editor',
  'Member.name': 'Ann Example',
  'ApiKey.name': 'shop backend',
  'CreatedApiKey.name': 'shop backend',
  'OwnApiKey.name': 'Ann Example',
  next_after: 41,
  next_attempt_at: null,
  next_cursor: null,
  note: 'promised in ticket 812',
  offline_days: 30,
  paused: false,
  payload: JSON.stringify(exampleEvent('licence.suspended')),
  pending: 0,
  period_months: 12,
  plan_name: 'Pro',
  plan_value: 'true',
  price_id: 'price_pro',
  product_version: '4.2.0',
  reached_at: null,
  reason: null,
  response_code: 204,
  response_excerpt: '',
  retired_at: null,
  return_url: 'https://shop.example.com/account',
  revoked_at: null,
  sale_id: 'order-2026-0042',
  'Payment.sale_id': null,
  'SaleFact.id': 'refund-17',
  'ReportedFact.id': 'refund-17',
  secret: 'whsec_…',
  sequence: 41,
  signature: token,
  'CreatedWebhookEndpoint.signature': 'default',
  'UpdatedWebhookEndpoint.signature': 'default',
  'WebhookEndpoint.signature': 'default',
  signed: token,
  'JsonWebKeySet.keys': {
    kty: 'OKP',
    crv: 'Ed25519',
    x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
    kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
    alg: 'EdDSA',
    use: 'sig',
  },
  spent_minor: 1200,
  cap_minor: 50_000,
  status_reason: null,
  support_url: 'mailto:help@example.com',
  renews_on: '2027-01-31T00:00:00.000Z',
  cancels_on: null,
  subscribed_events: 'licence.suspended,licence.revoked',
  suspended_licences: 12,
  token,
  trial: false,
  trial_days: 14,
  type: 'licence.suspended',
  updates_months: 12,
  updates_until: '2028-01-31T00:00:00.000Z',
  'CheckoutSession.licence_id': null,
  'CheckoutSession.url': 'https://checkout.stripe.com/c/pay/cs_test_example',
  'createSubscriptionSession.url': 'https://billing.stripe.com/p/session/test_example',
  'ProcessorAuthorization.url': 'https://connect.stripe.com/oauth/authorize?client_id=ca_example',
  url: 'https://backend.example.com/licensing-events',
  value: 'true',
  version: 1,
  'ImportResult.created': 1,
  'ImportResult.existing': 0,
  'ImportResult.failed': 0,
  'readMetrics.from': '2026-11-01',
  'readMetrics.to': '2026-11-01',
  'readMetrics.at': '2026-11-01T00:00:00.000Z',
  active: 120,
  created: 0,
  downgraded: 0,
  expired: 0,
  imported: 0,
  issued: 4,
  reactivated: 0,
  retired: 0,
  revoked: 1,
  suspended: 1,
}

/** Fields that an operation has just changed. */
const changed: Readonly<Record<string, object>> = {
  suspendLicence: { status: 'suspended', status_reason: 'manual' },
  reactivateLicence: { status: 'active' },
  revokeLicence: { status: 'revoked' },
  retireLicence: { status: 'retired' },
  archivePlan: { status: 'retired', active_licences: 0 },
} satisfies Record<
  `${LicenceVerb}Licence` | 'archivePlan',
  { status: LicenceStatus; [field: string]: unknown }
>

/** A realistic answer of an operation, made from the schema of the answer. */
export function answerExample(operationId: string, schema: JsonSchema, book: SchemaBook): unknown {
  const example = exampleOf(schema, operationId, '', book)
  return operationId in changed ? { ...(example as object), ...changed[operationId] } : example
}

/** @param owner the schema or operation that has the field `name` */
function exampleOf(schema: JsonSchema, owner: string, name: string, book: SchemaBook): unknown {
  const reference = schema['$ref'] as string | undefined
  const referred = reference?.split('/').at(-1) ?? ''
  for (const known of [`${owner}.${name}`, referred, name]) {
    if (known in values && schema['type'] !== 'array') return values[known]
  }
  if (reference !== undefined) return exampleOf(book.schemas[referred]!, referred, '', book)
  const [first] = (schema['anyOf'] ?? []) as JsonSchema[]
  if (first) return exampleOf(first, owner, name, book)
  if (schema.properties) {
    const fields = Object.entries(schema.properties)
    return Object.fromEntries(fields.map(([key, inner]) => [key, exampleOf(inner, owner, key, book)]))
  }
  if (schema['type'] === 'array') return [exampleOf(schema['items'] as JsonSchema, owner, name, book)]
  const [given] = (schema['examples'] ?? schema['enum'] ?? []) as unknown[]
  if (given !== undefined) return given
  if (schema['const'] !== undefined) return schema['const']
  throw new Error(`no example of ${owner}.${name}: add one to answer-examples.ts`)
}
