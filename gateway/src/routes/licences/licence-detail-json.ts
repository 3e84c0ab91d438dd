import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { HistoryEntry, LicenceDetail } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'
import { licenceFields, licenceJson, licenceStatus } from './licence-json.ts'

export const licenceDetailSchema = z
  .strictObject({
    ...licenceFields,
    entitlements: z
      .array(z.strictObject({ key: z.string(), kind: z.enum(closedSets.entitlementKind), value: z.string() }))
      .describe('The snapshot taken at issue: every definition, override or default, sorted by key.'),
    activations: z.array(
      z.strictObject({
        id: id('act'),
        fingerprint: z.string(),
        host: z.string(),
        product_version: z.string(),
        created_at: timestampText,
        last_seen_at: timestampText,
      }),
    ),
    call_home: z
      .array(z.strictObject({ host: z.string(), product_version: z.string(), seen_at: timestampText }))
      .describe('The latest 50 call-homes, newest first.'),
    legacy_key: z.string().nullable(),
  })
  .meta({ id: 'LicenceDetail' })

export const historyEntrySchema = z
  .strictObject({
    at: timestampText,
    type: z.enum(closedSets.historyType),
    from: licenceStatus.nullable().describe('The status before; null for a licence’s first entry.'),
    to: licenceStatus,
    actor: z.string().describe('An API key’s id, `processor`, `sweep` or `product`.'),
    cause: z.string().nullable().describe('Event, charge or archive that it came from.'),
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
    activations: detail.activations.map((activation) => ({
      id: activation.id,
      fingerprint: activation.fingerprint,
      host: activation.host,
      product_version: activation.productVersion,
      created_at: isoText(activation.createdAt),
      last_seen_at: isoText(activation.lastSeenAt),
    })),
    call_home: detail.callHome.map(({ host, productVersion, seenAt }) => ({
      host,
      product_version: productVersion,
      seen_at: isoText(seenAt),
    })),
    legacy_key: detail.legacyKey ?? null,
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
  }
}
