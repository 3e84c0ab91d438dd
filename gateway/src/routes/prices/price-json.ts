import type { Price } from '@licensing/proto/billing'
import { textLimits } from '@licensing/proto/text'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { count, currency, currencyText, minorUnits, minorUnitsNumber } from '../../fields/money.ts'
import { optional } from '../../fields/optional.ts'
import { text } from '../../fields/text.ts'

const mode = z.enum(closedSets.priceMode)

export const priceSchema = z
  .strictObject({
    plan_id: id('pln'),
    price_id: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    mode,
    period_months: z.int().nullable(),
  })
  .meta({ id: 'Price' })

const mostMonths = 1_200

export const setPriceBody = z.strictObject({
  price_id: text(textLimits.reference)
    .meta({ examples: ['price_1SPro'] })
    .describe('The price’s id at the payment processor.'),
  amount: minorUnits,
  currency,
  mode,
  period_months: optional(count.max(mostMonths, `must be at most ${mostMonths}`)).describe(
    'Duration of a licence that is paid once. Default: it never expires.',
  ),
})

export function priceJson(price: Price): z.output<typeof priceSchema> {
  return {
    plan_id: price.planId,
    price_id: price.priceId,
    amount: Number(price.amount),
    currency: price.currency,
    mode: readMember('priceMode', price.mode),
    period_months: price.periodMonths ?? null,
  }
}
