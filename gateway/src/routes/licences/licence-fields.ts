import type { FieldOf } from '@licensing/grpc/fields'
import type { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import type { BodyOf } from '../../fields/messages.ts'
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
interface Field<Value> {
  /** Its value in a request. */
  given: z.ZodType<Value | undefined>
  /** Its value in a change, if that has another form. */
  change?: z.ZodType<Value | undefined>
  /** The type of the value in an item of an import. A value of the type that `given` refuses fails only its item. */
  imported: z.ZodType
  shown: z.ZodType
  about: string
  /** Says what a licence without it has. Absent: each licence has it. */
  none?: string
}

type Body = BodyOf<typeof LicenceFieldsSchema>
type Name = FieldOf<typeof LicenceFieldsSchema>

/** The fields that a vendor gives a licence: the bodies that issue, import and change licences, and answers follow from them. */
const fields = {
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
} satisfies { [N in Name]: Field<NonNullable<Body[N]>> }

type Shape = { [N in Name]: z.ZodType<Body[N]> }

function shapeOf(schemaOf: (field: Field<unknown>) => z.ZodType): Shape {
  const schemas = Object.entries(fields).map(([name, field]) => [name, schemaOf(field)])
  return Object.fromEntries(schemas) as Shape
}

const described = (schema: z.ZodType, { about, none }: Field<unknown>, without: 'Default' | 'null') =>
  schema.describe(none === undefined ? about : `${about} ${without}: ${none}.`)

const isRequired = ({ none }: Field<unknown>) => none === undefined

/** The fields in a request that issues a licence. */
export const issuedFields = shapeOf((field) =>
  isRequired(field) ? field.given : described(optional(field.given), field, 'Default'),
)

/** The fields in a change: all are optional, and null removes one. */
export const changedFields = shapeOf((field) => {
  const { given, change } = field
  if (change !== undefined || isRequired(field)) return (change ?? given).optional()
  return described(given.nullable().optional(), field, 'null')
})

/** The types of the fields of an item of an import. An item whose values break the rules of `issuedFields` fails alone. */
export const importedFields = shapeOf((field) =>
  isRequired(field) ? field.imported : described(optional(field.imported), field, 'Default'),
)

/** The fields in answers. */
export const shownFields = shapeOf((field) => described(field.shown, field, 'null')) as unknown as {
  [N in Name]: (typeof fields)[N]['shown']
}
