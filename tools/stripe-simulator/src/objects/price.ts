import { newId } from '../ids.ts'
import type { Price } from './wire.ts'

type Interval = 'day' | 'week' | 'month' | 'year'

export type NewPrice = {
  id: string
  created: number
  currency: string
  unitAmount: number
  recurring: { interval: Interval; intervalCount: number } | null
  product?: string | undefined
  active?: boolean
}

export function newPrice(wanted: NewPrice): Price {
  const { created, currency, unitAmount, recurring } = wanted
  return {
    id: wanted.id,
    object: 'price',
    active: wanted.active ?? true,
    billing_scheme: 'per_unit',
    created,
    currency,
    custom_unit_amount: null,
    livemode: false,
    lookup_key: null,
    metadata: {},
    nickname: null,
    product: wanted.product ?? newId('prod'),
    recurring: recurring && {
      interval: recurring.interval,
      interval_count: recurring.intervalCount,
      meter: null,
      trial_period_days: null,
      usage_type: 'licensed',
    },
    tax_behavior: 'unspecified',
    tiers_mode: null,
    transform_quantity: null,
    type: recurring === null ? 'one_time' : 'recurring',
    unit_amount: unitAmount,
    unit_amount_decimal: String(unitAmount),
  }
}
