import { address, serviceConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'
import { readSeconds } from './deliveries/backoff.ts'
import { parseNetworks } from './http-client/address.ts'
import { parseEncryptionKeys } from '@licensing/database/encryption'

const environment = z.object({
  ...serviceConfig,
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  ENCRYPTION_KEY: z
    .string()
    .transform(reading(parseEncryptionKeys))
    .describe(
      'key that encrypts endpoint secrets, 32 bytes in base64url; to rotate, put the new key before the old one',
    ),
  WEBHOOK_ALLOWED_CIDRS: z
    .string()
    .default('')
    .transform(reading(parseNetworks))
    .describe('private networks that deliveries may go to, separated by commas'),
  WEBHOOK_DENIED_CIDRS: z
    .string()
    .default('')
    .transform(reading(parseNetworks))
    .describe('networks that no delivery may go to, such as public addresses of the operator'),
  WEBHOOK_CA_FILE: z.string().optional().describe('PEM file of additional certificate authorities to trust'),
  WEBHOOK_BACKOFF_SECONDS: z
    .string()
    .optional()
    .transform(reading((text: string | undefined) => (text === undefined ? undefined : readSeconds(text))))
    .describe('waits between attempts in seconds, separated by commas; the last repeats'),
  WEBHOOK_SLOTS: wholeNumber(10).default(512).describe('maximum number of deliveries in flight'),
  SMTP_URL: z.url().optional().describe('smtp://… for alerts; if it is absent, alerts are logged'),
  SMTP_FROM: z.string().default('alerts@localhost').describe('sender of alerts'),
  PUBLIC_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('public URL of the gateway, with which links in mails begin; required with SMTP_URL'),
})

// Without PUBLIC_URL the mail that confirms an address has no link.
export const notifierConfig = environment.refine(
  ({ SMTP_URL, PUBLIC_URL }) => SMTP_URL === undefined || PUBLIC_URL !== undefined,
  { path: ['PUBLIC_URL'] },
)

/** A parser that throws, as a zod transformation. */
function reading<In, Out>(parse: (text: In) => Out): (text: In, context: z.RefinementCtx<In>) => Out {
  return (text, context) => {
    try {
      return parse(text)
    } catch (error) {
      context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : String(error) })
      return z.NEVER
    }
  }
}
