import { address, serviceConfig } from '@licensing/process/config'
import { z } from 'zod'

export const catalogConfig = z.object({
  ...serviceConfig,
  LICENSING_ADDRESS: address.describe('host:port of the licensing service'),
  // The first account, made at the first start, for those who bring a key rather than use licensing-admin.
  BOOTSTRAP_API_KEY: z
    .string()
    .regex(/^lsk_[\x21-\x7e]{36,124}$/, 'must start with lsk_ and have 40 to 128 visible characters')
    .optional()
    .describe('key of the demo account, made at the first start'),
  ALERT_EMAIL: z.email().default('alerts@localhost').describe('where the demo account’s alerts go'),
})

export type CatalogConfig = z.output<typeof catalogConfig>
