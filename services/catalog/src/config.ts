import { address, serviceConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'
import { emailAddress } from './accounts/accounts.ts'

export const catalogConfig = z.object({
  ...serviceConfig,
  FEE_BPS: wholeNumber('basis points')
    .refine((value) => value <= 10_000, 'must be at most 10000')
    .default(100)
    .describe('transaction fee of new accounts, in basis points'),
  FEE_FIXED_MINOR: wholeNumber('minor units of the currency')
    .refine(Number.isSafeInteger, 'is too large')
    .default(0)
    .describe('fixed part of the transaction fee of new accounts, in minor units'),
  LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
  NOTIFIER_ADDRESS: address.describe('host:port of the notifier service, which sends mails'),
  // Creates the first account at the first start, as an alternative to licensing-admin.
  BOOTSTRAP_API_KEY: z
    .string()
    .regex(/^lsk_[\x21-\x7e]{36,124}$/, 'must start with lsk_ and have 40 to 128 visible characters')
    .optional()
    .describe('key of the demo account, made at the first start'),
  ALERT_EMAIL: z
    .string()
    .regex(emailAddress, 'must be an e-mail address')
    .default('alerts@localhost')
    .describe('address for alerts of the demo account'),
})

export type CatalogConfig = z.output<typeof catalogConfig>
