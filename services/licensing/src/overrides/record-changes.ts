import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { insertHistory } from '../lifecycle/history-queries.ts'
import type { FieldChanges } from '../lifecycle/history-queries.ts'
import { licenceEvent } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import type { EffectiveEntitlement } from '../plans/effective.ts'

/** A change of the overrides or the snapshot of a licence that the transaction has locked. */
export interface EntitlementsChange {
  licence: LicenceRow
  /** The entitlements of products before the change and after it. */
  before: EffectiveEntitlement[]
  after: EffectiveEntitlement[]
  /** The changes for the history. */
  changes: FieldChanges
  actor: string
}

/** Writes the history of changes, and an event for each licence whose products get another value (docs/guides/licences.md, "Other values for one customer"). */
export async function recordChanges(tx: Transaction, made: EntitlementsChange[], at: Date): Promise<void> {
  await insertHistory(
    tx,
    made.map(({ licence: { id: licenceId, status }, changes, actor }) => {
      return { licenceId, type: 'changed', from: status, to: status, actor, changes, at }
    }),
  )
  const visible = made.filter(({ before, after }) => valuesText(before) !== valuesText(after))
  await append(
    tx,
    ...visible.map(({ licence }) => licenceEvent('licenceEntitlementsChanged', licence, licence.plan_id)),
  )
}

const valuesText = (effective: EffectiveEntitlement[]) =>
  JSON.stringify(effective.map(({ key, value }) => [key, value]))
