import { newId, platformApplication } from '../ids.ts'
import type { Period } from './billing-period.ts'
import { nulls, listOf, type Metadata, type Price, type Subscription, type SubscriptionItem } from './wire.ts'

type NewSubscription = {
  created: number
  currency: string
  customer: string
  paymentMethod: string
  metadata: Metadata
  applicationFeePercent: number | null
  items: { price: Price; quantity: number; period: Period }[]
}

export function newSubscription(wanted: NewSubscription): Subscription {
  const id = newId('sub')
  const { created } = wanted
  return {
    id,
    object: 'subscription',
    ...nulls('billing_cycle_anchor_config billing_thresholds customer_account days_until_due'),
    ...nulls('default_source next_pending_invoice_item_invoice on_behalf_of pending_invoice_item_interval'),
    ...nulls('pending_setup_intent pending_update schedule test_clock transfer_data trial_end trial_start'),
    application: platformApplication,
    application_fee_percent: wanted.applicationFeePercent,
    automatic_tax: { disabled_reason: null, enabled: false, liability: null },
    billing_cycle_anchor: created,
    billing_mode: { flexible: { proration_discounts: 'included' }, type: 'flexible' },
    billing_schedules: [],
    cancel_at: null,
    cancel_at_period_end: false,
    canceled_at: null,
    cancellation_details: { comment: null, feedback: null, feedback_option: null, reason: null },
    collection_method: 'charge_automatically',
    created,
    currency: wanted.currency,
    customer: wanted.customer,
    default_payment_method: wanted.paymentMethod,
    default_tax_rates: [],
    description: null,
    discounts: [],
    ended_at: null,
    invoice_settings: {
      account_tax_ids: null,
      custom_fields: null,
      description: null,
      footer: null,
      issuer: { type: 'self' },
    },
    items: listOf(
      `/v1/subscription_items?subscription=${id}`,
      wanted.items.map((item) => newItem(id, created, item)),
    ),
    latest_invoice: null,
    livemode: false,
    managed_payments: { enabled: false },
    metadata: wanted.metadata,
    pause_collection: null,
    payment_settings: {
      payment_method_options: null,
      payment_method_types: null,
      save_default_payment_method: 'off',
    },
    start_date: created,
    status: 'active',
    trial_settings: {
      end_behavior: { billing_cycle_anchor: null, missing_payment_method: 'create_invoice' },
    },
  }
}

export function newItem(
  subscription: string,
  created: number,
  { price, quantity, period }: NewSubscription['items'][number],
): SubscriptionItem {
  return {
    id: newId('si'),
    object: 'subscription_item',
    billing_thresholds: null,
    created,
    current_period_end: period.end,
    current_period_start: period.start,
    current_trial: null,
    discounts: [],
    metadata: {},
    plan: planOf(price),
    price: structuredClone(price),
    quantity,
    subscription,
    tax_rates: [],
  }
}

/** The older `plan` object of a recurring price, which Stripe still sends beside `price`. */
export function planOf(price: Price): SubscriptionItem['plan'] {
  return {
    id: price.id,
    object: 'plan',
    ...nulls('meter tiers_mode transform_usage trial_period_days'),
    active: price.active,
    amount: price.unit_amount,
    amount_decimal: price.unit_amount_decimal,
    billing_scheme: price.billing_scheme,
    created: price.created,
    currency: price.currency,
    interval: price.recurring?.interval ?? 'month',
    interval_count: price.recurring?.interval_count ?? 1,
    livemode: false,
    metadata: price.metadata,
    nickname: price.nickname,
    product: price.product,
    usage_type: 'licensed',
  }
}
