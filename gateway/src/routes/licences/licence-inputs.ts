import { readMachineName } from '@licensing/proto/host-name'
import { ServiceError } from '@licensing/grpc/errors'
import { textLimits } from '@licensing/proto/text'
import { parseTimestamp } from '@licensing/proto/timestamp'
import { z } from 'zod'
import { domain, optional, storableText, text } from '../../fields/text.ts'
import { reference } from '../../fields/id.ts'
import { count } from '../../fields/money.ts'
import {
  gatherMetadata,
  importedMetadata,
  metadata,
  metadataChange,
  metadataFilter,
} from '../../fields/metadata.ts'
import { idCursor, limit } from '../../fields/page.ts'
import { importedTimestamp, timestamp, toProto } from '../../fields/time.ts'
import { validate } from '../../http/validate.ts'
import { licenceStatus } from './licence-json.ts'

const maxDomains = 100
const maxItems = 500
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

const expiresOn = 'Default: the licence never expires.'
const updatesUntil = 'The product may be updated to releases until this time.'

export const issueLicenceBody = z.strictObject({
  external_ref: externalRef,
  plan_id: reference('pln', 'plan'),
  restrictions: optional(restrictions),
  expires_on: optional(timestamp).describe(expiresOn),
  metadata: optional(metadata),
  updates_until: optional(timestamp).describe(`${updatesUntil} Default: no limit.`),
})

export const updateLicenceBody = z.strictObject({
  external_ref: externalRef.optional(),
  restrictions: restrictions
    .nullable()
    .transform((given) => given ?? { domains: [] })
    .optional()
    .describe('Replaces all restrictions. null removes them.'),
  expires_on: timestamp.nullable().optional().describe('null: the licence never expires.'),
  metadata: metadataChange.optional(),
  updates_until: timestamp.nullable().optional().describe(`${updatesUntil} null: no limit.`),
})

export const setOverrideBody = z.strictObject({
  value: storableText,
  ends_on: optional(timestamp).describe('The override ends at this time. Default: it does not end.'),
  note: optional(text(textLimits.note)).describe('Why the licence has it. Products never see it.'),
})

const importedCount = z.number().meta({ type: 'integer', minimum: 1 })

/** The types of the values of an item of an import: a value of another type is an error of the whole request. */
const importedRestrictions = z.strictObject({
  domains: optional(z.array(storableText)).describe(domains),
  max_activations: optional(importedCount),
  max_seats: optional(importedCount),
  max_concurrent: optional(importedCount),
  lease_minutes: optional(importedCount),
})

/** The rules for the values of an item: an item that breaks one fails, unless it was imported before. */
const importedRules = z.strictObject({
  metadata: optional(metadata),
  updates_until: optional(timestamp),
  expires_on: optional(timestamp),
  restrictions: optional(restrictions),
})

const importedItem = z
  .strictObject({
    legacy_key: storableText,
    external_ref: storableText,
    plan_id: storableText,
    metadata: optional(importedMetadata),
    updates_until: optional(importedTimestamp).describe(`${updatesUntil} Default: no limit.`),
    expires_on: optional(importedTimestamp).describe(expiresOn),
    restrictions: optional(importedRestrictions),
  })
  .transform(({ legacy_key, external_ref, plan_id, ...values }) => {
    const item = { legacyKey: legacy_key, externalRef: external_ref, planId: plan_id }
    try {
      const { metadata, updates_until, expires_on, restrictions } = validate(importedRules, values, 'body')
      return {
        ...item,
        metadata: metadata && { entries: metadata },
        updatesUntil: updates_until,
        expiresOn: expires_on,
        restrictions,
      }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const { pointer, message } = error.errors[0]!
      return { ...item, problem: `${pointer.slice(1)} ${message}` }
    }
  })

export const importLicencesBody = z.strictObject({
  items: z
    .array(importedItem)
    .min(1, 'must have at least one item')
    .max(maxItems, `must have at most ${maxItems} items`)
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

const listLicencesParameters = z.strictObject({
  limit,
  cursor: idCursor('lic'),
  status: licenceStatus.optional(),
  plan: storableText.optional().describe('A plan’s id.'),
  domain: storableText
    .transform(readMachineName)
    .optional()
    .describe(
      'A host that is an entry of `restrictions.domains`, or that an activation or call-home reported.',
    ),
  last_seen: lastSeen.optional(),
  external_ref: storableText.optional(),
  metadata: metadataFilter.optional(),
  trial: z
    .string()
    .meta({ type: 'boolean' })
    .transform((text, context) => {
      if (text === 'true' || text === 'false') return text === 'true'
      context.addIssue({ code: 'custom', message: 'must be true or false' })
      return z.NEVER
    })
    .optional()
    .describe('true: only trials. false: all other licences.'),
})

export const listLicencesQuery = z.preprocess(gatherMetadata, listLicencesParameters)
