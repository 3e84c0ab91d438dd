import { z } from 'zod'

const prefixes = [
  'acct',
  'app',
  'key',
  'usr',
  'ent',
  'pln',
  'lic',
  'act',
  'whe',
  'evt',
  'dlv',
  'cs',
  'pay',
  'rfd',
  'sale',
  'fee',
  'alrt',
  'aud',
] as const

export type IdPrefix = (typeof prefixes)[number]

const patterns = Object.fromEntries(
  prefixes.map((prefix) => [prefix, new RegExp(`^${prefix}_[0-7][0-9a-hjkmnp-tv-z]{25}$`)]),
) as Record<IdPrefix, RegExp>

/** Whether text has the form of an id. If it does not, no resource has this id, and no service needs to be called. */
export function isId(prefix: IdPrefix, text: string): boolean {
  return patterns[prefix].test(text)
}

/** Error text for a text that does not have the form of an id. */
export const noSuch = ({ prefix, what }: { prefix: IdPrefix; what: string }) =>
  `there is no such ${what}: its id is ${prefix}_ and 26 characters`

/** An id in a body. A text that is not an id is a validation error, as is the id of a resource that does not exist. */
export function reference(prefix: IdPrefix, what: string) {
  return z
    .string()
    .refine((text) => isId(prefix, text), noSuch({ prefix, what }))
    .meta({ pattern: patterns[prefix].source })
}

/** An id in an answer. */
export function id(prefix: IdPrefix) {
  return z
    .string()
    .meta({ pattern: patterns[prefix].source, examples: [`${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`] })
}

/** Path parameters that are ids, with the prefix and the noun of each. */
export const pathIds: Readonly<Record<string, { prefix: IdPrefix; what: string }>> = {
  app_id: { prefix: 'app', what: 'application' },
  key_id: { prefix: 'key', what: 'API key' },
  member_id: { prefix: 'usr', what: 'member' },
  ent_id: { prefix: 'ent', what: 'entitlement definition' },
  plan_id: { prefix: 'pln', what: 'plan' },
  licence_id: { prefix: 'lic', what: 'licence' },
  activation_id: { prefix: 'act', what: 'activation' },
  endpoint_id: { prefix: 'whe', what: 'webhook endpoint' },
  delivery_id: { prefix: 'dlv', what: 'webhook delivery' },
  session_id: { prefix: 'cs', what: 'checkout session' },
}

/** Path parameters that the vendor chooses, with an example of each. */
export const pathTexts: Readonly<Record<string, string>> = {
  key: 'export_pdf',
  sale_id: 'order-2026-0042',
}
