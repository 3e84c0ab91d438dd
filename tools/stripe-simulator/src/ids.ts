import { randomBytes } from 'node:crypto'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** An id in Stripe's format that is recognizable as simulated: `ch_simX7…`. */
export function newId(prefix: string): string {
  let text = ''
  for (const byte of randomBytes(18)) text += alphabet.charAt(byte % alphabet.length)
  return `${prefix}_sim${text}`
}

/** The platform's application id at Stripe Connect. */
export const platformApplication = 'ca_simLicensingPlatform'
