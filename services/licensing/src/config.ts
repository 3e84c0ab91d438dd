import { address, serviceConfig, wholeNumber } from '@licensing/process/config'
import { z } from 'zod'

export const licensingConfig = z.object({
  ...serviceConfig,
  CATALOG_ADDRESS: address.describe('host:port of the catalog service'),
  ENCRYPTION_KEY: z
    .string()
    .regex(
      /^[A-Za-z0-9_-]{43}=?( *, *[A-Za-z0-9_-]{43}=?)*$/,
      'must be 32 bytes in base64url, several with commas between',
    )
    .describe('32 bytes, base64url: encrypts the private signing keys'),
  TOKEN_ISSUER: z.string().default('licensing').describe('`iss` of tokens'),
  TOKEN_LIFE_SECONDS: wholeNumber('seconds', 1).default(86_400).describe('longest life of a token'),
  CHECK_INTERVAL_SECONDS: wholeNumber('seconds', 1)
    .default(900)
    .describe('how often a product checks the revocations'),
  SWEEP_INTERVAL_SECONDS: wholeNumber('seconds', 1)
    .refine((seconds) => seconds <= 30, 'must be at most 30')
    .default(10)
    .describe('pause between two sweeps for licences past their expiry'),
})

export type LicensingConfig = z.output<typeof licensingConfig>
