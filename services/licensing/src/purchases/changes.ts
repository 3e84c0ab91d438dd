import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { NewEvent } from '@licensing/events/outbox'
import { insertHistory } from '../lifecycle/history-queries.ts'
import type { FieldChanges, NewHistory } from '../lifecycle/history-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import type { FieldColumns } from '../lifecycle/licence-fields.ts'
import { licenceEvent } from '../lifecycle/licence-row.ts'
import { stepsOf } from '../lifecycle/licence.ts'
import type { Lead, ShownStatus } from '../lifecycle/licence.ts'
import { addToPlanCounts } from '../lifecycle/licence-queries.ts'
import { storeSnapshots } from '../plans/snapshot-queries.ts'
import { lockLists } from '../revocations/revocation-queries.ts'
import { insertLicences, updateLicences } from './changes-queries.ts'
import type { PaidEntry } from './paid-metadata.ts'
import { upsertPaidEntries } from './paid-metadata-queries.ts'
import { insertProvisions } from './provision-queries.ts'
import type { NewProvision } from './provision-queries.ts'
import { fellAt } from './purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'
import { insertEffects, upsertPurchases } from './purchase-queries.ts'
import type { LockedLicence, PurchasedLicence } from './purchased-licence.ts'

/** The rows that a transaction has to write: licences and purchases with their final values. */
export interface Changes {
  /** The time by the database's clock. */
  now: Date
  /** New licences, as they were created; `licences` has their later changes. */
  created: LockedLicence[]
  licences: Map<string, LockedLicence>
  purchases: Map<string, Purchase>
  effects: (RecordedEffect & { licence_id: string })[]
  entries: Set<PaidEntry>
  provisions: NewProvision[]
  history: NewHistory[]
  events: NewEvent[]
  /** The change of the number of active licences, by plan. */
  counts: Map<string, number>
}

export function noChanges(now: Date): Changes {
  return {
    now,
    created: [],
    licences: new Map(),
    purchases: new Map(),
    effects: [],
    entries: new Set(),
    provisions: [],
    history: [],
    events: [],
    counts: new Map(),
  }
}

/** The actor and cause of a history entry. */
export interface By {
  actor: string
  cause?: string | undefined
}

/**
 * Changes a licence, and records and sends what follows from its status before and after.
 *
 * @param fields the changes in an entry of type `changed`
 */
export function changeLicence(
  changes: Changes,
  { licence }: PurchasedLicence,
  after: Partial<LockedLicence> & ShownStatus,
  leading: readonly Lead[],
  by: By,
  fields: FieldChanges = {},
): void {
  const before = { ...licence }
  const steps = stepsOf(before, after, leading)
  Object.assign(licence, after, steps.length > 0 && { updated_at: changes.now })
  changes.licences.set(licence.id, licence)
  for (const { history: type, emits, from, to } of steps) {
    const entry = { licenceId: licence.id, type, from, to, ...by, at: changes.now }
    changes.history.push(type === 'changed' ? { ...entry, changes: fields } : entry)
    if (emits) changes.events.push(licenceEvent(emits, { ...licence }, before.plan_id))
  }
  if (before.status === 'active') count(changes, before.plan_id, -1)
  if (licence.status === 'active') count(changes, licence.plan_id, 1)
}

export function count({ counts }: Changes, planId: string, by: number): void {
  counts.set(planId, (counts.get(planId) ?? 0) + by)
}

/** Gives a licence the fields of a payment. */
export function changePaidFields(
  changes: Changes,
  licence: LockedLicence,
  by: By,
  paid: Partial<FieldColumns>,
): void {
  const differences = licenceFields.differences(licence, { ...licence, ...paid })
  if (Object.keys(differences).length === 0) return
  Object.assign(licence, paid, { updated_at: changes.now })
  changes.licences.set(licence.id, licence)
  const { id: licenceId, status } = licence
  const entry = { licenceId, type: 'changed', from: status, to: status, at: changes.now } as const
  changes.history.push({ ...entry, ...by, changes: differences })
}

export function savePurchase(changes: Changes, purchase: Purchase): void {
  changes.purchases.set(`${purchase.application_id} ${purchase.purchase_ref}`, purchase)
}

/** Writes the changes, one statement for each table. The transaction has locked their licences. */
export async function writeChanges(tx: Transaction, changes: Changes): Promise<void> {
  const { created, licences, effects, provisions, history, events, counts } = changes
  const purchases = [...changes.purchases.values()]
  await storeSnapshots(tx, [...created, ...purchases, ...effects])
  await insertLicences(tx, created)
  await addToPlanCounts(tx, counts)
  const revoked = [...licences.values()].filter(({ status }) => status === 'revoked')
  if (revoked.length > 1) {
    await lockLists(
      tx,
      revoked.map((licence) => licence.application_id),
    )
  }
  await updateLicences(tx, [...licences.values()])
  await upsertPurchases(
    tx,
    purchases.map((purchase) => ({
      ...purchase,
      fallen: fellAt(purchase, changes.now.getTime()) < Infinity,
    })),
  )
  await upsertPaidEntries(tx, [...changes.entries])
  await insertEffects(tx, effects)
  await insertProvisions(tx, provisions)
  if (history.length > 0) await insertHistory(tx, history)
  await append(tx, ...events)
}
