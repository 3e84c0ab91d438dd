import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import type { FeeKind } from '@licensing/proto/closed-sets'
import { writeSession } from '../checkout-sessions/session-queries.ts'
import type { InvoiceRow } from '../facts/subscription-facts.ts'
import { feeOf, periodOf } from '../fees/fee.ts'
import { insertFeeRefund } from '../fees/fee-refund-queries.ts'
import { postFee } from '../fees/post-fee.ts'
import { insertPayment, writePayment } from '../payments/payment-queries.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import { markAlerted, putRefund } from '../refunds/refund-queries.ts'
import type { LocalStep } from './step.ts'
import type { Story } from './story.ts'

/** @param unfound what to make of a charge that was not found: `pending` while it is still looked for */
export async function applyLocal(
  tx: Transaction,
  story: Story,
  step: LocalStep,
  unfound: 'pending' | 'absent',
): Promise<void> {
  const { session } = story
  switch (step.do) {
    case 'close':
      return writeSession(tx, session.id, { status: step.status })
    case 'record_payment':
      return recordPayment(tx, story, step.invoice, unfound)
    case 'link_payment':
      return writePayment(tx, step.payment.id, { payment_ref: step.paymentRef })
    case 'link_charge':
      return writePayment(tx, step.payment.id, {
        charge_ref: step.charge.charge_ref,
        charged_at: step.charge.charged_at,
        ...(step.charge.charged_at && { charge_state: 'known' as const }),
      })
    case 'charge_fee':
      return void (await post(tx, step.payment, 'charge', step.payment.fee_minor, chargedAt(step.payment)))
    case 'credit_fee':
      return creditFee(tx, step.payment, step.at)
    case 'reverse_credit':
      return void (await post(tx, step.payment, 'reversal', step.payment.fee_minor, step.at))
    case 'note_refund': {
      const { payment, refund, lane } = step
      const { refund_ref: ref, amount, currency, status, created_at: occurredAt } = refund
      return putRefund(tx, {
        ...ownedBy(payment, session.merchant),
        ref,
        amount,
        currency,
        lane,
        status,
        occurred_at: occurredAt,
      })
    }
    case 'note_chargeback': {
      const { payment, dispute } = step
      const { dispute_ref: ref, amount, currency, status, opened_at: occurredAt } = dispute
      return putRefund(tx, {
        ...ownedBy(payment, session.merchant),
        ref,
        amount,
        currency,
        lane: 'chargeback',
        status,
        occurred_at: occurredAt,
      })
    }
    case 'alert':
      return alert(tx, step)
  }
}

function ownedBy(payment: PaymentRow, merchant: string) {
  return {
    id: newId('rfd'),
    account_id: payment.account_id,
    application_id: payment.application_id,
    payment_id: payment.id,
    merchant,
    processed: false,
  }
}

function chargedAt(payment: PaymentRow): Date {
  return payment.charged_at ?? payment.paid_at
}

async function recordPayment(
  tx: Transaction,
  { session }: Story,
  invoice: InvoiceRow | undefined,
  unfound: 'pending' | 'absent',
): Promise<void> {
  const amount = invoice?.amount ?? session.paid_amount ?? session.amount
  const currency = (invoice?.currency ?? session.paid_currency) || session.currency
  const agreed = amount === session.amount && currency === session.currency
  const terms = { bps: session.fee_bps, fixedMinor: session.fee_fixed_minor }
  const paymentRef = invoice ? invoice.payment_ref : session.payment_ref
  const charged = amount > 0n && (session.mode === 'subscription' || paymentRef !== null)
  await insertPayment(
    tx,
    invoice ? `invoice:${session.id}:${invoice.invoice_ref}` : `checkout:${session.id}`,
    {
      id: newId('pay'),
      account_id: session.account_id,
      application_id: session.application_id,
      session_id: session.id,
      sale_id: null,
      invoice_ref: invoice?.invoice_ref ?? null,
      plan_id: session.plan_id,
      external_ref: session.external_ref,
      amount,
      currency,
      fee_minor: agreed ? session.fee_minor : feeOf(amount, terms),
      licence_id: session.licence_id,
      paid_at: invoice?.paid_at ?? session.paid_at!,
      merchant: session.merchant,
      payment_ref: paymentRef,
      charge_state: charged ? unfound : 'none',
      period_end: invoice?.period_end ?? null,
    },
  )
}

async function post(
  tx: Transaction,
  payment: PaymentRow,
  kind: FeeKind,
  amountMinor: bigint,
  at: Date,
): Promise<string | undefined> {
  return postFee(tx, {
    account_id: payment.account_id,
    application_id: payment.application_id,
    payment_id: payment.id,
    kind,
    amount_minor: amountMinor,
    currency: payment.currency,
    // Credits count for the month of the charge, so that they never enlarge another one's budget.
    period: periodOf(chargedAt(payment)),
    occurred_at: at,
  })
}

async function creditFee(tx: Transaction, payment: PaymentRow, at: Date): Promise<void> {
  const entryId = await post(tx, payment, 'credit', -payment.fee_minor, at)
  if (entryId === undefined) return
  await insertFeeRefund(tx, { feeEntryId: entryId, paymentId: payment.id, amountMinor: payment.fee_minor })
}

async function alert(tx: Transaction, step: Extract<LocalStep, { do: 'alert' }>): Promise<void> {
  const { payment, refund } = step
  const charge = payment.charge_ref ?? payment.payment_ref ?? payment.id
  const what = `Refund ${refund.refund_ref} of ${refund.amount} ${refund.currency} on charge ${charge}`
  const value =
    step.problem === 'failed'
      ? {
          subject: `A refund failed on charge ${charge}`,
          text: `${what} failed at the payment processor: the customer did not get the money. The licence ${payment.licence_id ?? '(none)'} stays as it is; a revoked licence cannot be revived, issue a new one if the customer is to keep it. A fee that had been credited for the refund is charged again.`,
        }
      : {
          subject: `A refund in another currency on charge ${charge}`,
          text: `${what} is in another currency than the charge (${payment.currency}). It was not counted and changed no licence: look at it at the payment processor, and change the licence ${payment.licence_id ?? '(none)'} yourself if need be.`,
        }
  await append(tx, {
    accountId: payment.account_id,
    applicationId: payment.application_id,
    payload: { case: 'vendorAlert', value },
  })
  await markAlerted(tx, payment.id, refund.refund_ref)
}
