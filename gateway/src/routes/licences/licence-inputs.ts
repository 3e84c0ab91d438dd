import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { domain, optional, storableText, text } from '../../fields/text.ts'
import { reference } from '../../fields/id.ts'
import { count } from '../../fields/money.ts'
import { idCursor, limit } from '../../fields/page.ts'
import { parseTimestamp, timestamp, toProto } from '../../fields/time.ts'
import { licenceStatus } from './licence-json.ts'

const mostDomains = 100
const mostItems = 500

export const externalRef = text(textLimits.reference)
  .meta({ examples: ['customer-4711'] })
  .describe('Your customer reference.')

const restrictions = z
  .strictObject({
    domains: optional(
      z
        .array(domain)
        .max(mostDomains, `must have at most ${mostDomains} entries`)
        .transform((domains) => [...new Set(domains)]),
    ).describe(
      'Host names on which the product may run. `*.example.com` matches all subdomains at any depth, but not `example.com`.',
    ),
    max_activations: optional(count),
    max_seats: optional(count),
  })
  .transform(({ domains = [], max_activations: maxActivations, max_seats: maxSeats }) =>
    domains.length === 0 && maxActivations === undefined && maxSeats === undefined
      ? undefined
      : { domains, maxActivations, maxSeats },
  )

export const issueLicenceBody = z.strictObject({
  external_ref: externalRef,
  plan_id: reference('pln', 'plan'),
  restrictions: optional(restrictions),
  expires_on: optional(timestamp).describe('Default: the licence never expires.'),
})

export const updateLicenceBody = z.strictObject({
  external_ref: externalRef.optional(),
  restrictions: restrictions
    .nullable()
    .transform((given) => given ?? { domains: [], maxActivations: undefined, maxSeats: undefined })
    .optional()
    .describe('Replaces all restrictions. null removes them.'),
  expires_on: timestamp.nullable().optional().describe('null: the licence never expires.'),
})

export const importLicencesBody = z.strictObject({
  items: z
    .array(z.strictObject({ legacy_key: storableText, external_ref: storableText, plan_id: storableText }))
    .min(1, 'must have at least one item')
    .max(mostItems, `must have at most ${mostItems} items`)
    .describe('An invalid item fails, the others are imported.'),
  dry_run: optional(z.boolean()).describe('true: returns the result without importing anything.'),
})

const lastSeen = z
  .string()
  .meta({ description: 'A timestamp (last call-home at or after it) or `never`.', examples: ['never'] })
  .transform((value, context) => {
    if (value === 'never') return { never: true as const }
    const ms = parseTimestamp(value)
    if (ms !== undefined) return { since: toProto(ms) }
    context.addIssue({ code: 'custom', message: 'must be an ISO 8601 timestamp or never' })
    return z.NEVER
  })

export const listLicencesQuery = z.strictObject({
  limit,
  cursor: idCursor('lic'),
  status: licenceStatus.optional(),
  plan: storableText.optional().describe('A plan’s id.'),
  domain: storableText
    .transform((host) => host.toLowerCase())
    .optional()
    .describe(
      'A host that is an entry of `restrictions.domains`, or that an activation or call-home reported.',
    ),
  last_seen: lastSeen.optional(),
  external_ref: storableText.optional(),
})
