import { z } from 'zod'

const integer = z.int('must be a whole number')

/** Minor units in a request, zero or more. */
export const minorUnits = integer
  .min(0, 'must not be negative')
  .meta({ examples: [4900] })
  .transform((amount) => BigInt(amount))

/** Minor units in an answer. */
export const minorUnitsNumber = z.int().meta({ examples: [4900] })

export const currency = z
  .string()
  .regex(/^[a-z]{3}$/, 'must be an ISO 4217 code in lower case, such as eur')
  .meta({ examples: ['eur'] })

export const currencyText = z.string().meta({ examples: ['eur'] })

/** A whole number of at least 1 that fits 32 bits. */
export const count = integer.min(1, 'must be at least 1').max(2_147_483_647, 'must be at most 2147483647')
