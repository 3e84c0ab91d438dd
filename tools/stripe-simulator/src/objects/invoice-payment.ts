import { newId } from '../world/ids.ts'
import type { Invoice, InvoicePayment, PaymentIntent } from './wire.ts'

/** The link between an invoice and the payment intent that collects it. */
export function newInvoicePayment(created: number, invoice: Invoice, intent: PaymentIntent): InvoicePayment {
  return {
    id: newId('inpay'),
    object: 'invoice_payment',
    amount_paid: null,
    amount_requested: invoice.amount_due,
    created,
    currency: invoice.currency,
    invoice: invoice.id,
    is_default: true,
    livemode: false,
    payment: { payment_intent: intent.id, type: 'payment_intent' },
    status: 'open',
    status_transitions: { canceled_at: null, paid_at: null },
  }
}
