const appId = 'app_01k9zj3v8qe5ktw2m4x6r7n8ab'
const planId = 'pln_01k9zj3v8qe5ktw2m4x6r7n8ab'
const endpointId = 'whe_01k9zj3v8qe5ktw2m4x6r7n8ab'
const licenceKey = '7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'

const installation = {
  fingerprint: 'b1946ac92492d2347c6235b4d2611184',
  host: 'workstation-7.example.com',
  product_version: '4.2.0',
}

/** Example bodies by operation id. An acceptance test sends each of them. */
export const requestExamples: Readonly<Record<string, object>> = {
  createApplication: { name: 'Photo Editor' },
  updateApplication: { expiring_notice_days: 30 },
  createApiKey: { name: 'shop backend', scopes: ['issue', 'read'], app_id: appId },
  createMember: { email: 'ann@example.com', role: 'support' },
  updateMember: { role: 'viewer' },
  updateAccount: { alert_email: 'alerts@example.com' },
  createEntitlementDefinition: {
    key: 'export_pdf',
    kind: 'feature',
    display_name: 'Export to PDF',
    default: 'false',
  },
  updateEntitlementDefinition: { display_name: 'Export as PDF' },
  createPlan: {
    name: 'Pro',
    code: 'pro',
    entitlements: [{ key: 'export_pdf', value: 'true' }],
    metadata: { tier: '2' },
    trial_days: 14,
  },
  updatePlan: { name: 'Professional', metadata: { tier: null } },
  issueLicence: {
    external_ref: 'customer-4711',
    plan_id: planId,
    restrictions: { max_activations: 3 },
    expires_on: '2099-01-31T00:00:00.000Z',
    metadata: { crm_id: 'A-1044' },
    updates_until: '2028-01-31T00:00:00.000Z',
  },
  importLicences: {
    items: [{ legacy_key: 'OLD-0001', external_ref: 'customer-0001', plan_id: planId }],
  },
  updateLicence: {
    restrictions: { domains: ['*.example.com'], max_concurrent: 5, lease_minutes: 30 },
    metadata: { crm_id: 'A-1045', region: null },
  },
  setOverride: { value: 'true', ends_on: '2099-01-31T00:00:00.000Z', note: 'promised in ticket 812' },
  setPrice: {
    price_id: 'price_pro',
    amount: 4900,
    currency: 'eur',
    mode: 'payment',
    period_months: 12,
    updates_months: 12,
  },
  connectProcessor: { processor: 'stripe', connected_account: 'acct_1SExample' },
  setSpendCap: { cap_minor: 50_000, currency: 'eur' },
  createCheckoutSession: {
    plan_id: planId,
    external_ref: 'customer-4711',
    success_url: 'https://shop.example.com/thanks',
    cancel_url: 'https://shop.example.com/cart',
  },
  recordSaleEvent: {
    sale_id: 'order-2026-0042',
    external_ref: 'customer-0042',
    plan_id: planId,
    amount: 4900,
    currency: 'eur',
    occurred_at: '2026-11-01T12:00:00.000Z',
  },
  reportSaleRefund: { refund_id: 'refund-17', amount: 4900, occurred_at: '2026-11-08T12:00:00.000Z' },
  reportSaleRenewal: {
    renewal_id: 'order-2027-0042',
    amount: 4900,
    currency: 'eur',
    occurred_at: '2027-11-01T12:00:00.000Z',
    expires_on: '2028-11-15T12:00:00.000Z',
  },
  reportSaleFailure: { failure_id: 'attempt-3', occurred_at: '2027-11-01T12:00:00.000Z' },
  reportSaleCancellation: { occurred_at: '2027-05-01T12:00:00.000Z', ends_on: '2027-11-01T12:00:00.000Z' },
  createWebhookEndpoint: {
    url: 'https://backend.example.com/licensing-events',
    subscribed_events: 'licence.suspended, licence.revoked',
  },
  recoverWebhookEndpoint: { since: '2026-11-01T12:00:00.000Z', types: ['licence.revoked'] },
  replayWebhookDelivery: { endpoint_id: endpointId },
  activate: { licence_key: licenceKey, ...installation },
  refreshActivation: { product_version: '4.2.1', host: 'workstation-7.example.com' },
  recordCallHome: { product_version: '4.2.1', host: 'workstation-7.example.com' },
  activateOffline: { licence_key: licenceKey, ...installation, days: 90 },
  createCustomerSession: { minutes: 60, return_url: 'https://shop.example.com/account' },
  signInWithLicenceKey: { licence_key: licenceKey },
  createCustomerLicenceFile: { request: JSON.stringify(installation), days: 30 },
  migrateLegacyKey: { legacy_key: 'OLD-0001' },
  startTrial: { plan_code: 'pro', ...installation },
}
