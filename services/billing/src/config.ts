import { address, serviceConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'
import type { StripeSettings } from './processor/stripe/client.ts'

/** `authorize`: the vendor proves the account on the processor's consent page. `direct`: the vendor names any account. */
const processorClaims = ['authorize', 'direct'] as const

export type ProcessorClaim = (typeof processorClaims)[number]

export const billingConfig = z.object({
  ...serviceConfig,
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
  STRIPE_API_BASE: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('http(s)://host:port of Stripe’s API, if it is not Stripe’s own'),
  STRIPE_SECRET_KEY: z
    .string()
    .optional()
    .describe('the platform’s secret key; without it nothing can be sold'),
  STRIPE_WEBHOOK_SECRET: z
    .string()
    .optional()
    .describe('secret of the webhook endpoint; several, separated by commas, while one is being replaced'),
  STRIPE_CLIENT_ID: z
    .string()
    .optional()
    .describe('the platform’s client id at Stripe Connect, ca_…; without it no account can be proven'),
  STRIPE_CONNECT_BASE: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('http(s)://host:port of Stripe’s consent page for browsers, if it is not Stripe’s own'),
  PROCESSOR_CLAIM: z
    .enum(processorClaims)
    .default('authorize')
    .describe(
      'how a vendor connects an account: authorize (the vendor proves it on the processor’s consent page) or direct (any account that the platform can reach)',
    ),
  PAYMENT_FAILURES_BEFORE_SUSPEND: wholeNumber('payments', 1)
    .default(3)
    .describe('consecutive failed payments of a subscription that suspend its licence'),
  SUBSCRIPTION_GRACE_HOURS: wholeNumber('hours')
    .default(336)
    .describe('hours that a subscription’s licence remains valid after the end of the paid period'),
  RECONCILE_INTERVAL_SECONDS: wholeNumber('seconds', 1)
    .default(300)
    .describe('pause between two comparisons with the processor’s own list of events'),
})

export type BillingConfig = z.output<typeof billingConfig>

/** The settings of the Stripe adapter. Empty webhook secrets are left out. */
export function stripeSettings(config: BillingConfig): StripeSettings {
  const secrets = (config.STRIPE_WEBHOOK_SECRET ?? '').split(',').map((secret) => secret.trim())
  return {
    apiBase: config.STRIPE_API_BASE,
    secretKey: config.STRIPE_SECRET_KEY,
    clientId: config.STRIPE_CLIENT_ID,
    connectBase: config.STRIPE_CONNECT_BASE,
    webhookSecrets: secrets.filter((secret) => secret !== ''),
  }
}
