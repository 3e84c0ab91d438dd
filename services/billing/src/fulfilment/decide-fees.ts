import { newId } from '@licensing/database/ids'
import { periodOf } from '../fees/fee.ts'
import type { NewEntry } from './decision.ts'
import { feeChanges, missingChanges } from './ledger.ts'
import type { ReversedPayment, Subject } from './subject.ts'

/** The fee of a payment, and what its refunds do to it. */
export function decideFees(subject: Subject, view: ReversedPayment): void {
  const { history, decision, now } = subject
  const { payment } = view
  if (payment.fee_minor === 0n) return
  const posted = history.ledger.filter((entry) => entry.payment_id === payment.id)
  const chargedAt = payment.charged_at ?? payment.paid_at
  const charge = posted.find((entry) => entry.kind === 'charge')
  // The month is that of the charge: it waits until the charge is found, or cannot be.
  if (!charge && payment.charge_state === 'pending') return
  const entry = (change: Pick<NewEntry, 'kind' | 'cause' | 'occurred_at'>): NewEntry => ({
    id: newId('fee'),
    payment_id: payment.id,
    amount_minor: change.kind === 'credit' ? -payment.fee_minor : payment.fee_minor,
    currency: payment.currency,
    // Credits count for the month of the charge, so that they never enlarge another one's budget.
    period: charge?.period ?? periodOf(chargedAt),
    ...change,
  })
  if (!charge) decision.entries.push(entry({ kind: 'charge', cause: '', occurred_at: chargedAt }))
  if (!view.settled) return
  const before = posted.flatMap(({ kind, cause }) => (kind === 'charge' ? [] : [{ kind, cause }]))
  const wanted = feeChanges(view.refunds, view.total, chargedAt.getTime())
  const changes = missingChanges(wanted, before, now.getTime()).map(({ kind, cause, at }) =>
    entry({ kind, cause, occurred_at: new Date(at) }),
  )
  decision.entries.push(...changes)
  giveBack(subject, changes, payment.id)
}

/** A credit is given back at the processor too, unless it was reversed in the meantime. */
function giveBack({ decision }: Subject, changes: NewEntry[], paymentId: string): void {
  const credits = changes.filter((entry) => entry.kind === 'credit')
  const reversals = changes.length - credits.length
  if (reversals > credits.length - 1 && reversals > 0) decision.canceledFeeRefunds.push(paymentId)
  for (const { id, amount_minor: amount } of credits.slice(reversals)) {
    decision.feeRefunds.push({ fee_entry_id: id, payment_id: paymentId, amount_minor: -amount })
  }
}
