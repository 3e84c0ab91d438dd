import { randomBytes } from 'node:crypto'

/** `whsec_` and 43 characters of base 64 url: 256 random bits. */
export const newSecret = () => `whsec_${randomBytes(32).toString('base64url')}`
