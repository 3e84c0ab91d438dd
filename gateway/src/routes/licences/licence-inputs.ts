import { readMachineName } from '@licensing/proto/host-name'
import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import { ServiceError } from '@licensing/grpc/errors'
import { textLimits } from '@licensing/proto/text'
import { parseTimestamp } from '@licensing/proto/timestamp'
import { z } from 'zod'
import { optional, storableText, text } from '../../fields/text.ts'
import { reference } from '../../fields/id.ts'
import { fieldsFrom } from '../../fields/messages.ts'
import { gatherMetadata, metadataFilter } from '../../fields/metadata.ts'
import { idCursor, limit } from '../../fields/page.ts'
import { timestamp, toProto } from '../../fields/time.ts'
import { validate } from '../../http/validate.ts'
import { changedFields, importedFields, issuedFields } from './licence-fields.ts'
import { licenceStatus } from './licence-json.ts'

const maxItems = 500

export const issueLicenceBody = z.strictObject({ plan_id: reference('pln', 'plan'), ...issuedFields })

export const updateLicenceBody = z.strictObject(changedFields)

export const setOverrideBody = z.strictObject({
  value: storableText,
  ends_on: optional(timestamp).describe('The override ends at this time. Default: it does not end.'),
  note: optional(text(textLimits.note)).describe('Why the licence has it. Products never see it.'),
})

const { external_ref: _, ...optionalFields } = issuedFields
const importedRules = z.strictObject(optionalFields)

const importedItem = z
  .strictObject({ legacy_key: storableText, plan_id: storableText, ...importedFields })
  .transform(({ legacy_key: legacyKey, plan_id: planId, external_ref, ...values }) => {
    try {
      const fields = { external_ref, ...validate(importedRules, values, 'body') }
      return { legacyKey, planId, fields: fieldsFrom(LicenceFieldsSchema, fields).fields }
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error
      const { pointer, message } = error.errors[0]!
      const { fields } = fieldsFrom(LicenceFieldsSchema, { external_ref })
      return { legacyKey, planId, fields, problem: `${pointer.slice(1)} ${message}` }
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
