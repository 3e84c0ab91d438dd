import type { NewEvent } from '@licensing/events/outbox'
import type { NewHistory } from '../lifecycle/history-queries.ts'
import { licenceEvent } from '../lifecycle/licence-row.ts'
import { follow } from '../lifecycle/licence.ts'
import type { Cause, Circumstances } from '../lifecycle/licence.ts'
import type { By } from '../lifecycle/licence-queries.ts'
import { afterAll } from './holding.ts'
import type { HeldLicence, Holding } from './holding.ts'
import type { Fact, Purchase } from './purchase.ts'

/** What a transaction has to write; licences and purchases as they end. */
export interface Changes {
  /** By the database's clock. */
  now: Date
  /** As they were minted. */
  minted: HeldLicence[]
  licences: Map<string, HeldLicence>
  purchases: Map<string, Purchase>
  facts: (Fact & { licence_id: string })[]
  provisions: { applicationId: string; paymentRef: string; licenceId: string; created: boolean }[]
  history: NewHistory[]
  events: NewEvent[]
  /** By how much the active licences of each plan change. */
  counts: Map<string, number>
}

export function noChanges(now: Date): Changes {
  return {
    now,
    minted: [],
    licences: new Map(),
    purchases: new Map(),
    facts: [],
    provisions: [],
    history: [],
    events: [],
    counts: new Map(),
  }
}

/** What a purchase gives its licence. */
export type Given = Pick<HeldLicence, 'plan_id' | 'snapshot_id' | 'expires_on'>

interface Turn {
  causes: readonly Cause[]
  circumstances: Circumstances
  by: By
  given: Given
}

/** Does to a licence what the table has for these causes, one after the other. */
export function bring(changes: Changes, holding: Holding, turn: Turn): void {
  const { licence } = holding
  const { causes, circumstances, by, given } = turn
  const { standing, steps } = follow(causes, licence, circumstances)
  const before = { ...licence }
  const written = steps.some(({ transition }) => transition.history)
  Object.assign(licence, standing, given, written && { updated_at: changes.now })
  changes.licences.set(licence.id, licence)
  for (const { transition, from, to } of steps) {
    const { history, emits, ignoresEarlierPaymentProblems } = transition
    if (ignoresEarlierPaymentProblems) licence.reactivated_at = afterAll(holding, changes.now)
    if (history) {
      const entry = { licenceId: licence.id, type: history, from, to, ...by, at: changes.now }
      changes.history.push(
        history === 'changed' ? { ...entry, changes: { expires_on: endsOf(before, licence) } } : entry,
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

const endsOf = (before: HeldLicence, after: HeldLicence) => ({
  from: before.expires_on?.toISOString() ?? null,
  to: after.expires_on?.toISOString() ?? null,
})

export function touch(changes: Changes, purchase: Purchase): void {
  changes.purchases.set(`${purchase.application_id} ${purchase.purchase_ref}`, purchase)
}
