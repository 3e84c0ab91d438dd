import { address, parsedBy, serviceConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'
import { readSeconds } from './deliveries/backoff.ts'
import { parseNetworks } from './http-client/address.ts'
import { parseEncryptionKeys } from '@licensing/database/encryption'

const environment = z.object({
  ...serviceConfig,
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  ENCRYPTION_KEY: parsedBy(parseEncryptionKeys).describe(
    'key that encrypts endpoint secrets, 32 bytes in base64url; to rotate, put the new key before the old one',
  ),
  WEBHOOK_ALLOWED_CIDRS: parsedBy(parseNetworks)
    .prefault('')
    .describe('private networks that deliveries may go to, separated by commas'),
  WEBHOOK_DENIED_CIDRS: parsedBy(parseNetworks)
    .prefault('')
    .describe('networks that no delivery may go to, such as public addresses of the operator'),
  WEBHOOK_CA_FILE: z.string().optional().describe('PEM file of additional certificate authorities to trust'),
  WEBHOOK_BACKOFF_SECONDS: parsedBy(readSeconds)
    .meta({ unit: 'seconds' })
    .optional()
    .describe(
      'waits between attempts, separated by commas; the last repeats; if it is absent, the schedule in the webhooks guide',
    ),
  WEBHOOK_PAYLOAD_RETENTION_DAYS: wholeNumber('days', 1)
    .default(90)
    .describe('time for which payloads are kept; older ones cannot be sent again'),
  WEBHOOK_PAYLOAD_RETENTION_SECONDS: wholeNumber('seconds', 1)
    .optional()
    .describe('for tests: seconds for which payloads are kept, instead of the days'),
  WEBHOOK_DELIVERY_RETENTION_DAYS: wholeNumber('days', 1)
    .optional()
    .describe(
      'time after which finished deliveries are removed with their attempts, at least that of payloads; if it is absent, never',
    ),
  WEBHOOK_OVERLAP_HOUR_SECONDS: wholeNumber('seconds', 1)
    .optional()
    .describe('for tests: how many seconds an hour of `overlap_hours` lasts; if it is absent, 3600'),
  WEBHOOK_SLOTS: wholeNumber('deliveries', 10)
    .default(512)
    .describe('maximum number of deliveries in flight'),
  SMTP_URL: z.url().optional().describe('smtp://… for alerts; if it is absent, alerts are logged'),
  SMTP_FROM: z.string().default('alerts@localhost').describe('sender of alerts'),
  PUBLIC_URL: z
    .url({ protocol: /^https?$/ })
    .optional()
    .describe('public URL of the gateway, with which links in mails begin; required with SMTP_URL'),
})

// Without PUBLIC_URL the mail that confirms an address has no link.
export const notifierConfig = environment
  .refine(({ SMTP_URL, PUBLIC_URL }) => SMTP_URL === undefined || PUBLIC_URL !== undefined, {
    path: ['PUBLIC_URL'],
  })
  // A recovery sends each retained event that has no delivery.
  .refine(
    ({ WEBHOOK_DELIVERY_RETENTION_DAYS: deliveries = Infinity, WEBHOOK_PAYLOAD_RETENTION_DAYS: payloads }) =>
      deliveries >= payloads,
    { path: ['WEBHOOK_DELIVERY_RETENTION_DAYS'], message: 'must be at least WEBHOOK_PAYLOAD_RETENTION_DAYS' },
  )
