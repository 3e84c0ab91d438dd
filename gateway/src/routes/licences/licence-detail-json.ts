import { closedSets } from '@licensing/proto/closed-sets'
import {
  ActivationSchema,
  HistoryEntrySchema,
  LicenceDetailSchema,
  OverrideSchema,
} from '@licensing/proto/licensing'
import type { HistoryEntry, LicenceDetail } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { changesSchema, renderer } from '../../fields/messages.ts'
import { timestampText } from '../../fields/time.ts'
import { actorName } from '../members/actor-names.ts'
import { licenceJson, licenceProperties, licenceStatus } from './licence-json.ts'

const leaseEndsAt = timestampText
  .nullable()
  .describe('When its lease ends, or has ended; null if it never had one.')

export const vendorActivationSchema = z
  .strictObject({
    id: id('act'),
    fingerprint: z.string(),
    host: z.string(),
    product_version: z.string(),
    created_at: timestampText,
    last_seen_at: timestampText,
    lease_ends_at: leaseEndsAt,
  })
  .meta({ id: 'LicenceActivation' })

export const overrideSchema = z
  .strictObject({
    key: z.string(),
    kind: z.enum(closedSets.entitlementKind),
    value: z.string(),
    ends_on: timestampText
      .nullable()
      .describe('When the override ends; a past time after its end; null: it does not end.'),
    note: z.string().nullable().describe('Why the licence has it.'),
    created_at: timestampText.describe('When it was first set.'),
  })
  .meta({ id: 'Override' })

export const detailProperties = {
  entitlements: z
    .array(z.strictObject({ key: z.string(), kind: z.enum(closedSets.entitlementKind), value: z.string() }))
    .describe('The snapshot taken when the licence was issued: all entitlements, sorted by key.'),
  activations: z.array(vendorActivationSchema).describe('The newest 100 activations, newest first.'),
  activations_total: z.int().describe('Number of activations.'),
  call_home: z
    .array(z.strictObject({ host: z.string(), product_version: z.string(), seen_at: timestampText }))
    .describe('The latest 50 call-homes, newest first.'),
  legacy_key: z.string().nullable(),
  allowed: z.array(z.enum(closedSets.licenceVerb)).describe('The lifecycle verbs that are possible now.'),
  plan_drift: z
    .array(
      z.strictObject({
        key: z.string(),
        kind: z.enum(closedSets.entitlementKind),
        licence_value: z.string().nullable(),
        plan_value: z.string().nullable(),
      }),
    )
    .describe(
      'Entitlements whose value in the snapshot differs from the current value of the plan, sorted by key.',
    ),
  overrides: z
    .array(overrideSchema)
    .describe('Values that only this licence has, sorted by key. Also those that have ended.'),
  effective: z
    .array(
      z.strictObject({
        key: z.string(),
        kind: z.enum(closedSets.entitlementKind),
        value: z.string(),
        from: z.enum(closedSets.entitlementSource).describe('Where the value comes from.'),
      }),
    )
    .describe('The values that a token would contain now, sorted by key.'),
  leases_in_use: z
    .int()
    .describe('Number of leases that have not ended; 0 on a licence that is not floating.'),
}

export const licenceDetailSchema = z
  .strictObject({ ...licenceProperties, ...detailProperties })
  .meta({ id: 'LicenceDetail' })

export const historyEntrySchema = z
  .strictObject({
    at: timestampText,
    type: z.enum(closedSets.historyType),
    from: licenceStatus.nullable().describe('Previous status; null in the first entry.'),
    to: licenceStatus,
    actor: z
      .string()
      .describe('The id of an API key or member, `processor`, `sweep`, `product` or `customer`.'),
    actor_name: actorName,
    cause: z.string().nullable().describe('The event, charge, archive or activation that caused it.'),
    changes: changesSchema
      .nullable()
      .describe(
        'For type `changed`: each changed field with its previous and new value; null for other types.',
      ),
  })
  .meta({ id: 'LicenceHistoryEntry' })

const ofDetail = renderer(LicenceDetailSchema, z.strictObject(detailProperties))

export function licenceDetailJson(detail: LicenceDetail): z.output<typeof licenceDetailSchema> {
  return { ...licenceJson(detail.licence!), ...ofDetail(detail) }
}

export const overrideJson = renderer(OverrideSchema, overrideSchema)

export const vendorActivationJson = renderer(ActivationSchema, vendorActivationSchema)

const ofEntry = renderer(HistoryEntrySchema, historyEntrySchema.omit({ actor_name: true, changes: true }))

export function historyEntryJson(
  entry: HistoryEntry,
  names: Readonly<Record<string, string>>,
): z.output<typeof historyEntrySchema> {
  return {
    ...ofEntry(entry),
    actor_name: names[entry.actor] ?? null,
    changes: entry.changesJson === undefined ? null : changesSchema.parse(JSON.parse(entry.changesJson)),
  }
}
