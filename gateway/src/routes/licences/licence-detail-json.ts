import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { Activation, HistoryEntry, LicenceDetail } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, timestampText } from '../../fields/time.ts'
import { licenceFields, licenceJson, licenceStatus } from './licence-json.ts'

export const vendorActivationSchema = z
  .strictObject({
    id: id('act'),
    fingerprint: z.string(),
    host: z.string(),
    product_version: z.string(),
    created_at: timestampText,
    last_seen_at: timestampText,
  })
  .meta({ id: 'LicenceActivation' })

export const licenceDetailSchema = z
  .strictObject({
    ...licenceFields,
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
  })
  .meta({ id: 'LicenceDetail' })

const changesSchema = z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }))

export const historyEntrySchema = z
  .strictObject({
    at: timestampText,
    type: z.enum(closedSets.historyType),
    from: licenceStatus.nullable().describe('Previous status; null in the first entry.'),
    to: licenceStatus,
    actor: z.string().describe('An API key’s id, `processor`, `sweep` or `product`.'),
    cause: z.string().nullable().describe('The event, charge, archive or activation that caused it.'),
    changes: changesSchema
      .nullable()
      .describe(
        'For type `changed`: each changed field with its previous and new value; null for other types.',
      ),
  })
  .meta({ id: 'LicenceHistoryEntry' })

export function licenceDetailJson(detail: LicenceDetail): z.output<typeof licenceDetailSchema> {
  return {
    ...licenceJson(detail.licence!),
    entitlements: detail.entitlements.map(({ key, kind, value }) => ({
      key,
      kind: readMember('entitlementKind', kind),
      value,
    })),
    activations: detail.activations.map(vendorActivationJson),
    activations_total: Number(detail.activationsTotal),
    call_home: detail.callHome.map(({ host, productVersion, seenAt }) => ({
      host,
      product_version: productVersion,
      seen_at: isoText(seenAt),
    })),
    legacy_key: detail.legacyKey ?? null,
    allowed: detail.allowed.map((verb) => readMember('licenceVerb', verb)),
    plan_drift: detail.planDrift.map(({ key, kind, licenceValue, planValue }) => ({
      key,
      kind: readMember('entitlementKind', kind),
      licence_value: licenceValue ?? null,
      plan_value: planValue ?? null,
    })),
  }
}

export function vendorActivationJson(activation: Activation): z.output<typeof vendorActivationSchema> {
  return {
    id: activation.id,
    fingerprint: activation.fingerprint,
    host: activation.host,
    product_version: activation.productVersion,
    created_at: isoText(activation.createdAt),
    last_seen_at: isoText(activation.lastSeenAt),
  }
}

export function historyEntryJson(entry: HistoryEntry): z.output<typeof historyEntrySchema> {
  return {
    at: isoText(entry.at),
    type: readMember('historyType', entry.type),
    from: entry.from === undefined ? null : readMember('licenceStatus', entry.from),
    to: readMember('licenceStatus', entry.to),
    actor: entry.actor,
    cause: entry.cause ?? null,
    changes: entry.changesJson === undefined ? null : changesSchema.parse(JSON.parse(entry.changesJson)),
  }
}
