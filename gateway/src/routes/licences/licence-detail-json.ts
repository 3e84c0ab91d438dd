import type { HistoryEntry, LicenceDetail } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { isoText, timestampText } from '../../fields/timestamp.ts'
import { licenceFields, licenceJson } from './licence-json.ts'

const kind = z.enum(['feature', 'limit'])

export const licenceDetailSchema = z
  .strictObject({
    ...licenceFields,
    entitlements: z
      .array(z.strictObject({ key: z.string(), kind, value: z.string() }))
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

const historyType = z.enum([
  'issued',
  'imported',
  'created',
  'plan_changed',
  'suspended',
  'reactivated',
  'revoked',
  'retired',
  'expired',
  'downgraded',
  'renewed',
  'migrated',
])

export const historyEntrySchema = z
  .strictObject({
    at: timestampText,
    type: historyType,
    from: z.string().nullable().describe('The status before; null for a licence’s first entry.'),
    to: z.string(),
    actor: z.string().describe('An API key’s id, `processor`, `sweep` or `product`.'),
    cause: z.string().nullable().describe('Event, charge or archive that it came from.'),
  })
  .meta({ id: 'LicenceHistoryEntry' })

export function licenceDetailJson(detail: LicenceDetail): z.output<typeof licenceDetailSchema> {
  return {
    ...licenceJson(detail.licence!),
    entitlements: detail.entitlements.map(({ key, kind: of, value }) => ({
      key,
      kind: of as z.output<typeof kind>,
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
    type: entry.type as z.output<typeof historyType>,
    from: entry.from ?? null,
    to: entry.to,
    actor: entry.actor,
    cause: entry.cause ?? null,
  }
}
