import { randomBytes } from 'node:crypto'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

/** An id that looks like Stripe's and says what it is: `ch_simX7…`. */
export function newId(prefix: string): string {
  let text = ''
  for (const byte of randomBytes(18)) text += alphabet.charAt(byte % alphabet.length)
  return `${prefix}_sim${text}`
}

/** The application that the platform is to Stripe Connect. */
export const platformApplication = 'ca_simLicensingPlatform'
