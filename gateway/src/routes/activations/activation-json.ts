import type { TokenGrant } from '@licensing/proto/products'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { host } from '../../fields/host-name.ts'
import { id } from '../../fields/id.ts'
import { text } from '../../fields/text.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'

export const grantSchema = z
  .strictObject({
    activation_id: id('act'),
    licence_id: id('lic'),
    token: z
      .string()
      .describe('A JWT (EdDSA) that the product verifies offline with the application’s public keys.'),
    expires_at: timestampText.describe('When the token expires.'),
    refresh_after: timestampText.describe('When to refresh the token: after half of its life.'),
    check_interval_seconds: z.int().describe('How often to check the revocation list.'),
  })
  .meta({ id: 'TokenGrant' })

const productVersion = text(textLimits.product).meta({ examples: ['4.2.0'] })

const nonce = text(textLimits.product)
  .optional()
  .describe(
    'Random text. The token repeats it in the claim `nonce`, which shows that it was issued for this request.',
  )

export const activateBody = z.strictObject({
  // Whatever is no licence key is an unknown one, and not a broken rule.
  licence_key: z.string().meta({ examples: ['7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'] }),
  fingerprint: text(textLimits.product).describe('Identifies the machine; chosen by the product.'),
  host,
  product_version: productVersion,
  nonce,
})

/** Whether text could be a licence key: for what is too long, or has characters that no key has, nobody is asked. */
export function couldBeLicenceKey(text: string): boolean {
  return /^[\x20-\x7e]{1,128}$/.test(text)
}

export const callHomeBody = z.strictObject({ product_version: productVersion, host })

export const refreshBody = callHomeBody.extend({ nonce })

export function grantJson(grant: TokenGrant): z.output<typeof grantSchema> {
  return {
    activation_id: grant.activationId,
    licence_id: grant.licenceId,
    token: grant.token,
    expires_at: isoText(grant.expiresAt),
    refresh_after: isoText(grant.refreshAfter),
    check_interval_seconds: grant.checkIntervalSeconds,
  }
}
