import { address, processConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'

export const gatewayConfig = z.object({
  ...processConfig,
  HTTP_ADDRESS: address.describe('host:port to serve HTTP on'),
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
  BILLING_ADDRESS: address.describe('host:port of the billing service'),
  NOTIFIER_ADDRESS: address.describe('host:port of the notifier service'),
  PUBLIC_URL: z.url().optional().describe('where callers reach the gateway; shown in the API reference'),
  RATE_LIMIT_PER_MINUTE: wholeNumber(1).default(6000).describe('requests a minute of one API key'),
  PRODUCT_RATE_PER_MINUTE: wholeNumber(1).default(600).describe('product requests a minute of one address'),
  PRODUCT_WRONG_KEYS_PER_MINUTE: wholeNumber(1)
    .default(60)
    .describe('wrong licence keys and tokens a minute of one address'),
  TRUST_PROXY: z
    .string()
    .optional()
    .transform(trustedProxies)
    .describe(
      'proxies whose X-Forwarded-For is trusted: how many, or their addresses and CIDRs, comma separated',
    ),
  PORTAL_DIR: z
    .string()
    .optional()
    .describe('folder of the portal’s files, served at /portal when it exists'),
})

/** A number says how many hops before us are believed. */
function trustedProxies(
  text: string | undefined,
): string | boolean | ((address: string, hop: number) => boolean) {
  if (text === undefined) return false
  const hops = Number(text)
  return /^[0-9]+$/.test(text) ? (_address, hop) => hop < hops : text
}
