import { address, listenAddress, parsedBy, processConfig, wholeNumber } from '@licensing/process/config'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { parseTrustedProxies } from './admission/client-address.ts'
import { parseSessionKeys } from './admission/session-encryption.ts'
import type { IdentityProviderSettings } from './portal/identity-provider.ts'

// `../..` is the root of the checkout for this file, and of the image for the bundled program.
const guides = fileURLToPath(new URL('../../docs/site/dist', import.meta.url))
const downloads = fileURLToPath(new URL('../../deploy/downloads/dist', import.meta.url))
const builtPortal = fileURLToPath(new URL('../../portal/dist', import.meta.url))

const oidcNames = ['OIDC_ISSUER', 'OIDC_CLIENT_ID', 'OIDC_CLIENT_SECRET'] as const

function isIssuer(text: string): boolean {
  const url = URL.parse(text)
  if (!url || url.search !== '' || url.hash !== '' || url.username !== '' || url.password !== '') return false
  return url.protocol === 'https:' || (url.protocol === 'http:' && isLoopback(url.hostname))
}

const isLoopback = (host: string) =>
  host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host)

export const gatewayConfig = z
  .object({
    ...processConfig,
    HTTP_ADDRESS: listenAddress.describe('host:port to serve HTTP on'),
    CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
    LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
    BILLING_ADDRESS: address.describe('host:port of the billing service'),
    NOTIFIER_ADDRESS: address.describe('host:port of the notifier service'),
    PUBLIC_URL: z.url().optional().describe('public address of the gateway; shown in the API reference'),
    RATE_LIMIT_PER_MINUTE: wholeNumber('requests a minute', 1)
      .default(6000)
      .describe('requests a minute of one API key'),
    PRODUCT_RATE_PER_MINUTE: wholeNumber('requests a minute', 1)
      .default(600)
      .describe('product requests a minute of one address'),
    PRODUCT_WRONG_KEYS_PER_MINUTE: wholeNumber('requests a minute', 1)
      .default(60)
      .describe('wrong licence keys and tokens a minute of one address'),
    PRODUCT_TRIALS_PER_DAY: wholeNumber('trials a day', 1)
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
    OIDC_ISSUER: z
      .string()
      .refine(isIssuer, 'must be an https URL without a query (http only on this machine)')
      .optional()
      .describe('issuer of the OpenID Connect provider at which people sign in to the portal'),
    OIDC_CLIENT_ID: z.string().optional().describe('id of this service at that provider'),
    OIDC_CLIENT_SECRET: z.string().optional().describe('secret of this service at that provider'),
    OIDC_NAME: z
      .string()
      .max(60, 'must have at most 60 characters')
      .default('single sign-on')
      .describe('name of that provider, for the button “Sign in with …”'),
  })
  .superRefine((config, context) => {
    const given = oidcNames.filter((name) => config[name] !== undefined)
    if (given.length === 0) return
    for (const name of oidcNames) {
      if (config[name] === undefined)
        context.addIssue({ code: 'custom', path: [name], message: 'is missing' })
    }
  })

/** The provider at which people sign in; undefined if there is none. */
export function identityProviderOf(
  config: z.output<typeof gatewayConfig>,
): IdentityProviderSettings | undefined {
  const { OIDC_ISSUER: issuer, OIDC_CLIENT_ID: clientId, OIDC_CLIENT_SECRET: clientSecret } = config
  if (issuer === undefined || clientId === undefined || clientSecret === undefined) return undefined
  return { issuer, clientId, clientSecret, name: config.OIDC_NAME }
}
