import { address, listenAddress, parsedBy, processConfig, wholeNumber } from '@licensing/process/config'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { parseTrustedProxies } from './admission/client-address.ts'
import { parseSessionKeys } from './admission/session-encryption.ts'

// `../..` is the root of the checkout for this file, and of the image for the bundled program.
const guides = fileURLToPath(new URL('../../docs/site/dist', import.meta.url))
const downloads = fileURLToPath(new URL('../../deploy/downloads/dist', import.meta.url))
const builtPortal = fileURLToPath(new URL('../../portal/dist', import.meta.url))

export const gatewayConfig = z.object({
  ...processConfig,
  HTTP_ADDRESS: listenAddress.describe('host:port to serve HTTP on'),
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
  BILLING_ADDRESS: address.describe('host:port of the billing service'),
  NOTIFIER_ADDRESS: address.describe('host:port of the notifier service'),
  PUBLIC_URL: z.url().optional().describe('public address of the gateway; shown in the API reference'),
  RATE_LIMIT_PER_MINUTE: wholeNumber(1).default(6000).describe('requests a minute of one API key'),
  PRODUCT_RATE_PER_MINUTE: wholeNumber(1).default(600).describe('product requests a minute of one address'),
  PRODUCT_WRONG_KEYS_PER_MINUTE: wholeNumber(1)
    .default(60)
    .describe('wrong licence keys and tokens a minute of one address'),
  PRODUCT_TRIALS_PER_DAY: wholeNumber(1)
    .default(20)
    .describe('new trials a UTC day of one application and address'),
  TRUST_PROXY: parsedBy(parseTrustedProxies)
    .optional()
    .describe(
      'proxies whose X-Forwarded-For is trusted: how many, or their addresses and CIDRs, comma separated',
    ),
  GUIDES_DIR: z
    .string()
    .default(guides)
    .describe('folder of the built guides, served at /docs/guides if it exists'),
  DOWNLOADS_DIR: z
    .string()
    .default(downloads)
    .describe('folder of the packed packages, served at /downloads/ if it exists'),
  PORTAL_DIR: z
    .string()
    .default(builtPortal)
    .describe('folder of the built portal, served at /portal if it exists'),
  PORTAL_SESSION_KEY: parsedBy(parseSessionKeys)
    .optional()
    .describe(
      'key that encrypts sessions of the portal: 32 bytes in base64url, the same on all replicas; to rotate it, set NEW,OLD',
    ),
})
