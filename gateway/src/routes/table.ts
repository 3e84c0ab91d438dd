import type { Route } from '../route.ts'
import { accountRoutes } from './accounts/account-routes.ts'
import { activationRoutes, offlineActivationRoutes } from './activations/activation-routes.ts'
import { alertRoutes } from './alerts/alert-routes.ts'
import { apiKeyRoutes } from './api-keys/api-key-routes.ts'
import { appRoutes } from './apps/app-routes.ts'
import { auditLogRoutes } from './audit-log/audit-log-routes.ts'
import { checkoutSessionRoutes } from './checkout-sessions/checkout-session-routes.ts'
import { customerRoutes } from './customers/customer-routes.ts'
import { entitlementDefRoutes } from './entitlement-defs/entitlement-def-routes.ts'
import { eventRoutes } from './events/event-routes.ts'
import { feeRoutes } from './fees/fee-routes.ts'
import { licenceRoutes } from './licences/licence-routes.ts'
import { oneLicenceRoutes } from './licences/one-licence-routes.ts'
import { overrideRoutes } from './licences/override-routes.ts'
import { memberRoutes } from './members/member-routes.ts'
import { migrateRoutes } from './migrate/migrate-routes.ts'
import { paymentRoutes } from './payments/payment-routes.ts'
import { planRoutes } from './plans/plan-routes.ts'
import { priceRoutes } from './prices/price-routes.ts'
import { processorRoutes } from './processor/processor-routes.ts'
import { revocationRoutes } from './revocations/revocation-routes.ts'
import { metricRoutes } from './metrics/metric-routes.ts'
import { searchRoutes } from './search/search-routes.ts'
import { saleEventRoutes } from './sale-events/sale-event-routes.ts'
import { saleFactRoutes } from './sale-events/sale-fact-routes.ts'
import { spendCapRoutes } from './spend-cap/spend-cap-routes.ts'
import { trialRoutes } from './trials/trial-routes.ts'
import { webhookDeliveryRoutes } from './webhook-deliveries/webhook-delivery-routes.ts'
import { webhookEndpointRoutes } from './webhook-endpoints/webhook-endpoint-routes.ts'

/** All routes of `/v1`. Admission, validation, the OpenAPI document and the tests use this table. */
export const routes: readonly Route[] = [
  ...entitlementDefRoutes,
  ...planRoutes,
  ...priceRoutes,
  ...licenceRoutes,
  ...oneLicenceRoutes,
  ...overrideRoutes,
  ...searchRoutes,
  ...checkoutSessionRoutes,
  ...saleEventRoutes,
  ...saleFactRoutes,
  ...paymentRoutes,
  ...feeRoutes,
  ...spendCapRoutes,
  ...metricRoutes,
  ...processorRoutes,
  ...webhookEndpointRoutes,
  ...webhookDeliveryRoutes,
  ...eventRoutes,
  ...alertRoutes,
  ...accountRoutes,
  ...auditLogRoutes,
  ...appRoutes,
  ...apiKeyRoutes,
  ...memberRoutes,
  ...activationRoutes,
  ...offlineActivationRoutes,
  ...revocationRoutes,
  ...migrateRoutes,
  ...trialRoutes,
  ...customerRoutes,
]
