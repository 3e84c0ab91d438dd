import { closedSets } from '@licensing/proto/closed-sets'
import type { SaleFactKind } from '@licensing/proto/closed-sets'
import type { Fact } from '../processor/facts.ts'
import type { SaleRow } from './sale-event-queries.ts'
import type { SaleFactRow } from './sale-fact-queries.ts'

/** A sale in the form of a checkout session that was paid when the sale was made. */
export function sessionOfSale(sale: SaleRow) {
  const { id, amount, currency, occurred_at } = sale
  return {
    ...sale,
    // The item that its renewals pay for.
    price_id: id,
    mode: 'payment' as const,
    period_months: null,
    fee_minor: 0n,
    fee_bps: 0,
    fee_fixed_minor: 0n,
    // The shop's ids are unique only within the sale.
    merchant: id,
    checkout_ref: id,
    url: '',
    paid_amount: amount,
    paid_currency: currency,
    paid_at: occurred_at,
    payment_ref: id,
    invoice_ref: null,
    subscription_ref: null,
    paid_until: null,
    renews: null,
    has_ended: null,
  }
}

const rankOf = (kind: SaleFactKind) =>
  closedSets.saleFactKind.indexOf(kind === 'chargeback' ? 'refund' : kind)

/** When a fact happened: not before its sale. */
function timeOf({ occurred_at: at }: SaleFactRow, sale: Pick<SaleRow, 'occurred_at'> | undefined): number {
  return Math.max(at.getTime(), sale?.occurred_at.getTime() ?? 0)
}

/** The facts of a sale in the order in which they happened. */
export function inOrder(facts: SaleFactRow[], sale?: Pick<SaleRow, 'occurred_at'>): SaleFactRow[] {
  return facts.toSorted(
    (a, b) =>
      timeOf(a, sale) - timeOf(b, sale) ||
      rankOf(a.kind) - rankOf(b.kind) ||
      (a.fact_id < b.fact_id ? -1 : 1),
  )
}

interface PaymentOfSale {
  amount: bigint
  currency: string
  /** The part that refunds have left. */
  left: bigint
}

/** The payments of a sale by their renewals, that of the sale itself by null, after these facts. */
export function paymentsOfSale(
  sale: Pick<SaleRow, 'amount' | 'currency' | 'occurred_at'> | undefined,
  facts: SaleFactRow[],
): Map<string | null, PaymentOfSale> {
  const payments = new Map<string | null, PaymentOfSale>()
  const add = (renewal: string | null, amount: bigint, currency: string) =>
    payments.set(renewal, { amount, currency, left: amount })
  if (sale) add(null, sale.amount, sale.currency)
  for (const { kind, fact_id, amount, currency } of facts) {
    if (kind === 'renewal') add(fact_id, amount!, currency!)
  }
  for (const { kind, renewal_id, amount } of facts) {
    const payment = payments.get(renewal_id)
    if (kind === 'refund' && payment) payment.left -= least(amount!, payment.left)
  }
  return payments
}

const least = (one: bigint, other: bigint) => (one < other ? one : other)

/**
 * Reads the reports of a shop about a sale into facts. A refund counts at most as much as earlier refunds left of its payment, and
 * a chargeback at most the payment. A refund of a renewal that is not known yet is left out.
 */
export function readSaleFacts(sale: SaleRow, rows: SaleFactRow[]): { fact: Fact; recorded_at: Date }[] {
  const { id, amount, currency, occurred_at, created_at } = sale
  const paymentRefOf = (renewalId: string | null) => (renewalId === null ? id : `${id}:${renewalId}`)
  const ordered = inOrder(rows, sale)
  const payments = paymentsOfSale(
    sale,
    ordered.filter(({ kind }) => kind === 'renewal'),
  )
  const paid: Fact = {
    kind: 'checkout',
    checkoutRef: id,
    paymentRef: id,
    state: 'paid',
    amount: Number(amount),
    currency,
    at: occurred_at.getTime(),
  }
  const facts = ordered.flatMap((row, place) => {
    const at = timeOf(row, sale)
    const fact = factOf(row, at, place)
    return fact ? [{ fact, recorded_at: row.recorded_at }] : []
  })
  return [{ fact: paid, recorded_at: created_at }, ...facts]

  function factOf(row: SaleFactRow, at: number, place: number): Fact | undefined {
    const { kind, fact_id: ref, renewal_id: renewalId, ends_on: end } = row
    switch (kind) {
      case 'renewal':
        return {
          kind: 'invoice_paid',
          invoiceRef: ref,
          subscriptionRef: id,
          paymentRef: paymentRefOf(ref),
          chargeRef: ref,
          reason: 'cycle',
          cycle: place,
          amount: Number(row.amount),
          currency: row.currency!,
          lines: [{ itemRef: id, priceRef: id, periodEnd: end!.getTime() }],
          paidAt: at,
        }
      case 'failure':
        // A renewal that has the same id does not pay for it.
        return {
          kind: 'invoice_failed',
          invoiceRef: `failure:${ref}`,
          failureRef: ref,
          subscriptionRef: id,
          attempt: 1,
          at,
        }
      case 'cancellation':
        return {
          kind: 'subscription_ended',
          subscriptionRef: sale.sale_id,
          endedAt: at,
          endsOn: end?.getTime() ?? at,
        }
      case 'refund': {
        const payment = payments.get(renewalId)
        if (!payment) return undefined
        const counted = least(row.amount!, payment.left)
        payment.left -= counted
        return {
          kind: 'refund',
          refundRef: ref,
          paymentRef: paymentRefOf(renewalId),
          amount: Number(counted),
          currency: payment.currency,
          createdAt: at,
          status: 'succeeded',
          hadSucceeded: true,
          reportedAt: at,
        }
      }
      case 'chargeback': {
        const payment = payments.get(renewalId)
        return (
          payment && {
            kind: 'dispute',
            disputeRef: ref,
            paymentRef: paymentRefOf(renewalId),
            amount: Number(least(row.amount!, payment.amount)),
            currency: payment.currency,
            openedAt: at,
            stage: 'chargeback',
            status: 'open',
            wasInquiry: false,
            opening: true,
            reportedAt: at,
          }
        )
      }
    }
  }
}
