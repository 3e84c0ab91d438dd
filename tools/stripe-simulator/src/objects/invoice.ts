import { newId, platformApplication } from '../ids.ts'
import type { Period } from './billing-period.ts'
import {
  nulls,
  listOf,
  type Invoice,
  type InvoiceLine,
  type InvoicePayment,
  type PaymentIntent,
  type Subscription,
} from './wire.ts'

type BillingReason = 'subscription_create' | 'subscription_cycle' | 'subscription_update'

export type NewInvoice = {
  created: number
  reason: BillingReason
  subscription: Subscription
  email: string | null
  lines: InvoiceLine[]
  /** The period that the invoice closes. On the first invoice its length is 0. */
  closes: Period
  /** The customer's balance before the invoice. A negative balance is credit. */
  startingBalance: number
  taxPercent: number
  /** When the draft is finalized; null if it is finalized at once. */
  finalizesAt: number | null
}

/** A draft invoice. It has no number, and no attempt to collect it. */
export function newInvoice(wanted: NewInvoice): Invoice {
  const { created, subscription, startingBalance } = wanted
  const id = newId('in')
  const lines = wanted.lines.map((line) => ({ ...line, invoice: id }))
  const subtotal = lines.reduce((sum, line) => sum + line.amount, 0)
  const tax = taxOn(subtotal, wanted.taxPercent)
  const total = subtotal + tax
  const due = Math.max(0, total + startingBalance)
  return {
    id,
    object: 'invoice',
    ...nulls('account_tax_ids custom_fields customer_account customer_address customer_name customer_phone'),
    ...nulls('customer_shipping default_payment_method default_source description due_date footer'),
    ...nulls('from_invoice hosted_invoice_url invoice_pdf last_finalization_error latest_revision'),
    ...nulls('on_behalf_of receipt_number rendering shipping_cost shipping_details statement_descriptor'),
    ...nulls('test_clock'),
    account_country: 'US',
    account_name: 'Simulated vendor',
    amount_due: due,
    amount_overpaid: 0,
    amount_paid: 0,
    amount_remaining: due,
    amount_shipping: 0,
    application: platformApplication,
    attempt_count: 0,
    attempted: false,
    auto_advance: true,
    automatic_tax: { disabled_reason: null, enabled: false, liability: null, provider: null, status: null },
    automatically_finalizes_at: wanted.finalizesAt,
    billing_reason: wanted.reason,
    collection_method: 'charge_automatically',
    created,
    currency: subscription.currency,
    customer: subscription.customer,
    customer_email: wanted.email,
    customer_tax_exempt: 'none',
    customer_tax_ids: [],
    default_tax_rates: [],
    discounts: [],
    effective_at: null,
    ending_balance: null,
    issuer: { type: 'self' },
    lines: listOf(`/v1/invoices/${id}/lines`, lines),
    livemode: false,
    metadata: {},
    next_payment_attempt: null,
    number: null,
    parent: {
      quote_details: null,
      subscription_details: { metadata: { ...subscription.metadata }, subscription: subscription.id },
      type: 'subscription_details',
    },
    payment_settings: { default_mandate: null, payment_method_options: null, payment_method_types: null },
    period_end: wanted.closes.end,
    period_start: wanted.closes.start,
    post_payment_credit_notes_amount: 0,
    pre_payment_credit_notes_amount: 0,
    starting_balance: startingBalance,
    status: 'draft',
    status_transitions: {
      finalized_at: null,
      marked_uncollectible_at: null,
      paid_at: null,
      voided_at: null,
    },
    subtotal,
    subtotal_excluding_tax: subtotal,
    total,
    total_discount_amounts: [],
    total_excluding_tax: subtotal,
    total_pretax_credit_amounts: [],
    total_taxes: tax > 0 ? [totalTax(tax, subtotal)] : [],
    webhooks_delivered_at: null,
  }
}

function totalTax(amount: number, taxable: number): NonNullable<Invoice['total_taxes']>[number] {
  return {
    amount,
    tax_behavior: 'exclusive',
    tax_rate_details: { tax_rate: newId('txr') },
    taxability_reason: 'standard_rated',
    taxable_amount: taxable,
    type: 'tax_rate_details',
  }
}

/** The link between an invoice and the payment intent that collects it. */
export function newInvoicePayment(created: number, invoice: Invoice, intent: PaymentIntent): InvoicePayment {
  return {
    id: newId('inpay'),
    object: 'invoice_payment',
    amount_paid: null,
    amount_requested: intent.amount,
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

/** Tax on an amount in minor units, rounded half up to whole minor units. */
export function taxOn(amount: number, percent: number): number {
  return Math.round((Math.max(0, amount) * percent) / 100)
}
