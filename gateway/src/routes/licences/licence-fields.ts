import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { fieldList } from '../../fields/field-list.ts'
import type { Field } from '../../fields/field-list.ts'
import { importedMetadata, metadata, metadataChange, metadataInAnswer } from '../../fields/metadata.ts'
import { count } from '../../fields/money.ts'
import { domain, optional, storableText, text } from '../../fields/text.ts'
import { importedTimestamp, timestamp, timestampText } from '../../fields/time.ts'

const maxDomains = 100
// A week.
const maxLeaseMinutes = 10_080

export const externalRef = text(textLimits.reference)
  .meta({ examples: ['customer-4711'] })
  .describe('Your customer reference.')

const domains =
  'Host names on which the product may run. `*.example.com` matches all subdomains at any depth, but not `example.com`.'

const restrictions = z
  .strictObject({
    domains: optional(
      z
        .array(domain)
        .max(maxDomains, `must have at most ${maxDomains} entries`)
        .transform((domains) => [...new Set(domains)]),
    ).describe(domains),
    max_activations: optional(count),
    max_seats: optional(count),
    max_concurrent: optional(count),
    lease_minutes: optional(count.max(maxLeaseMinutes, `must be at most ${maxLeaseMinutes}`)),
  })
  .superRefine(({ max_concurrent: maxConcurrent, lease_minutes: leaseMinutes }, context) => {
    if (leaseMinutes === undefined || maxConcurrent !== undefined) return
    context.addIssue({ code: 'custom', path: ['lease_minutes'], message: 'needs max_concurrent beside it' })
  })
  .transform(({ domains = [], ...given }) => {
    const limits = {
      maxActivations: given.max_activations,
      maxSeats: given.max_seats,
      maxConcurrent: given.max_concurrent,
      leaseMinutes: given.lease_minutes,
    }
    const isEmpty = domains.length === 0 && Object.values(limits).every((limit) => limit === undefined)
    return isEmpty ? undefined : { domains, ...limits }
  })

const importedCount = z.number().meta({ type: 'integer', minimum: 1 })

const importedRestrictions = z.strictObject({
  domains: optional(z.array(storableText)).describe(domains),
  max_activations: optional(importedCount),
  max_seats: optional(importedCount),
  max_concurrent: optional(importedCount),
  lease_minutes: optional(importedCount),
})

export const restrictionsSchema = z
  .strictObject({
    domains: z.array(z.string()).optional(),
    max_activations: z.int().optional(),
    max_seats: z.int().optional(),
    max_concurrent: z.int().optional(),
    lease_minutes: z.int().optional(),
  })
  .meta({ id: 'Restrictions' })

/** A field that a vendor gives a licence. */
interface LicenceField<Value> extends Field<Value> {
  /** The type of the value in an item of an import. A value of the type that `given` refuses fails only its item. */
  imported: z.ZodType
}

const fields = fieldList(LicenceFieldsSchema, {
  external_ref: {
    given: externalRef,
    imported: storableText,
    shown: z.string(),
    about: 'Your customer reference.',
  },
  restrictions: {
    given: restrictions,
    imported: importedRestrictions,
    shown: restrictionsSchema.nullable(),
    about: 'Limits of the licence. A change replaces all of them.',
    none: 'no limits',
  },
  expires_on: {
    given: timestamp,
    imported: importedTimestamp,
    shown: timestampText.nullable(),
    about: 'When the licence expires.',
    none: 'never',
  },
  metadata: {
    given: metadata.transform((set) => ({ set })),
    change: metadataChange,
    imported: importedMetadata,
    shown: metadataInAnswer,
    about: 'Your own entries: text by name.',
    none: 'no entries',
  },
  updates_until: {
    given: timestamp,
    imported: importedTimestamp,
    shown: timestampText.nullable(),
    about: 'The product may be updated to releases until this time.',
    none: 'no limit',
  },
} satisfies Record<string, LicenceField<unknown>>)

/** The fields in a request that issues a licence. */
export const issuedFields = fields.made()

/** The types of the fields of an item of an import. An item whose values break the rules of `issuedFields` fails alone. */
export const importedFields = fields.made(({ imported }) => imported)

/** The fields in a change, and in answers. */
export const { changed: changedFields, shown: shownFields } = fields
