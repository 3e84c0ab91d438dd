import { newId } from '../ids.ts'
import { nulls, type Price } from './wire.ts'

export type NewPrice = {
  id: string
  created: number
  currency: string
  unitAmount: number
  recurring: { interval: 'day' | 'week' | 'month' | 'year'; intervalCount: number } | null
  product?: string | undefined
  active?: boolean
}

export function newPrice(wanted: NewPrice): Price {
  const { created, currency, unitAmount, recurring } = wanted
  return {
    id: wanted.id,
    object: 'price',
    ...nulls('custom_unit_amount lookup_key nickname tiers_mode transform_quantity'),
    active: wanted.active ?? true,
    billing_scheme: 'per_unit',
    created,
    currency,
    livemode: false,
    metadata: {},
    product: wanted.product ?? newId('prod'),
    recurring: recurring && {
      interval: recurring.interval,
      interval_count: recurring.intervalCount,
      meter: null,
      trial_period_days: null,
      usage_type: 'licensed',
    },
    tax_behavior: 'unspecified',
    type: recurring === null ? 'one_time' : 'recurring',
    unit_amount: unitAmount,
    unit_amount_decimal: String(unitAmount),
  }
}
