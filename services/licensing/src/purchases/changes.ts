import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import type { NewEvent } from '@licensing/events/outbox'
import { insertHistory } from '../lifecycle/history-queries.ts'
import type { NewHistory } from '../lifecycle/history-queries.ts'
import { licenceFields } from '../lifecycle/licence-fields.ts'
import type { FieldColumns } from '../lifecycle/licence-fields.ts'
import { licenceEvent } from '../lifecycle/licence-row.ts'
import { applyCauses } from '../lifecycle/licence.ts'
import type { Cause, TransitionConditions } from '../lifecycle/licence.ts'
import { addToPlanCounts } from '../lifecycle/licence-queries.ts'
import { storeSnapshots } from '../plans/snapshot-queries.ts'
import { lockLists } from '../revocations/revocation-queries.ts'
import { insertLicences, updateLicences } from './changes-queries.ts'
import type { PaidEntry } from './paid-metadata.ts'
import { fellAt } from './purchase.ts'
import type { Purchase, RecordedEffect } from './purchase.ts'
import { insertEffects, insertProvisions, upsertPaidEntries, upsertPurchases } from './purchase-queries.ts'
import type { NewProvision } from './purchase-queries.ts'
import { timeAfterKnownEvents } from './purchased-licence.ts'
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

interface LicenceChange {
  causes: readonly Cause[]
  conditions: TransitionConditions
  by: By
  /** The plan and end that the licence gets; by default it keeps them. */
  terms?: Pick<LockedLicence, 'plan_id' | 'snapshot_id' | 'expires_on'>
}

/** Changes a licence as the lifecycle table says for these causes, one after the other. */
export function changeLicence(changes: Changes, purchased: PurchasedLicence, change: LicenceChange): void {
  const { licence } = purchased
  const { causes, conditions, by, terms } = change
  const { state, steps } = applyCauses(causes, licence, conditions)
  const before = { ...licence }
  const written = steps.some(({ transition }) => transition.history)
  Object.assign(licence, state, terms, written && { updated_at: changes.now })
  changes.licences.set(licence.id, licence)
  for (const { transition, from, to } of steps) {
    const { history, emits, ignoresEarlierPaymentProblems } = transition
    if (ignoresEarlierPaymentProblems) licence.reactivated_at = timeAfterKnownEvents(purchased, changes.now)
    if (history) {
      const entry = { licenceId: licence.id, type: history, from, to, ...by, at: changes.now }
      changes.history.push(
        history === 'changed'
          ? { ...entry, changes: { expires_on: licenceFields.changeOf('expires_on', before, licence) } }
          : entry,
      )
    }
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
