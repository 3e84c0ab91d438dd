import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { Activation, HistoryEntry, LicenceDetail } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'
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
      .describe('The snapshot taken at issue: every definition, override or default, sorted by key.'),
    activations: z.array(vendorActivationSchema).describe('The newest 100, newest first.'),
    activations_total: z.int().describe('How many activations there are.'),
    call_home: z
      .array(z.strictObject({ host: z.string(), product_version: z.string(), seen_at: timestampText }))
      .describe('The latest 50 call-homes, newest first.'),
    legacy_key: z.string().nullable(),
    allowed: z.array(z.enum(closedSets.licenceVerb)).describe('The verbs that would change the licence now.'),
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
        'The entitlements in which the snapshot differs from what the plan would grant now, sorted by key; null on the side that has no such key.',
      ),
  })
  .meta({ id: 'LicenceDetail' })

const changesSchema = z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }))

export const historyEntrySchema = z
  .strictObject({
    at: timestampText,
    type: z.enum(closedSets.historyType),
    from: licenceStatus.nullable().describe('The status before; null for a licence’s first entry.'),
    to: licenceStatus,
    actor: z.string().describe('An API key’s id, `processor`, `sweep` or `product`.'),
    cause: z.string().nullable().describe('Event, charge, archive or activation that it came from.'),
    changes: changesSchema
      .nullable()
      .describe('On type `changed`: each field that changed, with its values before and after; else null.'),
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
