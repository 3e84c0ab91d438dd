import type { RefundLane } from '@licensing/proto/closed-sets'
import type { ChargeRow } from '../facts/charge-facts.ts'
import type { DisputeRow } from '../facts/dispute-facts.ts'
import type { InvoiceRow } from '../facts/subscription-facts.ts'
import type { RefundFactRow } from '../facts/refund-facts.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'

/** One thing that follows from a story and has not been done yet. */
export type Step = LocalStep | LicenceStep

/** Done in this service's own database. */
export type LocalStep =
  | { do: 'close'; status: 'expired' | 'canceled' }
  | { do: 'record_payment'; invoice: InvoiceRow | undefined }
  | { do: 'link_payment'; payment: PaymentRow; paymentRef: string }
  | { do: 'link_charge'; payment: PaymentRow; charge: ChargeRow }
  | { do: 'charge_fee'; payment: PaymentRow }
  | { do: 'note_refund'; payment: PaymentRow; refund: RefundFactRow; lane: RefundLane }
  | { do: 'note_chargeback'; payment: PaymentRow; dispute: DisputeRow }
  | { do: 'credit_fee'; payment: PaymentRow; at: Date }
  | { do: 'reverse_credit'; payment: PaymentRow; at: Date }
  | { do: 'alert'; payment: PaymentRow; refund: RefundFactRow; problem: 'failed' | 'currency' }

/** Needs the licensing service first. */
export type LicenceStep =
  | { do: 'provision'; expiresOn: Date | undefined }
  | { do: 'renew'; payment: PaymentRow; at: Date }
  | { do: 'suspend_for_failures'; streak: string; at: Date }
  | { do: 'suspend_for_inquiry'; dispute: DisputeRow; at: Date }
  | { do: 'resume_from_inquiry'; dispute: DisputeRow; at: Date }
  | {
      do: 'process_refund'
      payment: PaymentRow
      refund: RefundFactRow
      lane: RefundLane
      oldCycle: boolean
      at: Date
    }
  | { do: 'process_chargeback'; payment: PaymentRow; dispute: DisputeRow; at: Date }
  | { do: 'end_subscription'; at: Date }

export function isLocal(step: Step): step is LocalStep {
  switch (step.do) {
    case 'provision':
    case 'renew':
    case 'suspend_for_failures':
    case 'suspend_for_inquiry':
    case 'resume_from_inquiry':
    case 'process_refund':
    case 'process_chargeback':
    case 'end_subscription':
      return false
    default:
      return true
  }
}
