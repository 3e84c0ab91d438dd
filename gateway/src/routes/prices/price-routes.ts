import { PriceSchema } from '@licensing/proto/billing'
import { textLimits } from '@licensing/proto/text'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { findPlan, planScope } from '../plans/plan-json.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { count, currency, currencyText, minorUnits, minorUnitsNumber } from '../../fields/money.ts'
import { optional, text } from '../../fields/text.ts'

const tag = 'Plans'
const path = '/v1/apps/{app_id}/plans/{plan_id}/price'

const mode = z.enum(closedSets.priceMode)

export const priceSchema = z
  .strictObject({
    plan_id: id('pln'),
    price_id: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    mode,
    period_months: z.int().nullable(),
    updates_months: z.int().nullable(),
  })
  .meta({ id: 'Price' })

const priceJson = renderer(PriceSchema, priceSchema)

const maxMonths = 1_200
const maxUpdatesMonths = 120

const setPriceBody = z.strictObject({
  price_id: text(textLimits.reference)
    .meta({ examples: ['price_1SPro'] })
    .describe('The price’s id at the payment processor.'),
  amount: minorUnits,
  currency,
  mode,
  period_months: optional(count.max(maxMonths, `must be at most ${maxMonths}`)).describe(
    'Duration of a licence that is paid once. Default: it never expires.',
  ),
  updates_months: optional(count.max(maxUpdatesMonths, `must be at most ${maxUpdatesMonths}`)).describe(
    'How many months of updates a payment includes: it moves `updates_until` of the licence. Default: a payment does not change it, and a new licence has no limit.',
  ),
})

export const priceRoutes: Route[] = [
  vendorRoute({
    method: 'PUT',
    path,
    operationId: 'setPrice',
    tag,
    summary: 'Set the price of a plan',
    description:
      'Maps the plan to a price of the payment processor. A new price replaces the previous one. A price belongs to one plan.',
    scopes: ['admin'],
    body: setPriceBody,
    answer: priceSchema,
    errors: ['already_exists'],
    lookUp: findPlan,
    handle: async (call) => {
      const { price_id: priceId, amount, currency, mode } = call.body
      const { period_months: periodMonths, updates_months: updatesMonths } = call.body
      const terms = { amount, currency, mode, periodMonths, updatesMonths }
      const price = { planId: call.params.plan_id, priceId, ...terms }
      return { body: priceJson(await call.services.billing.setPrice({ ...within(call), price })) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path,
    operationId: 'getPrice',
    tag,
    summary: 'Get the price of a plan',
    scopes: ['admin'],
    answer: priceSchema,
    handle: async (call) => ({ body: priceJson(await call.services.billing.getPrice(planScope(call))) }),
  }),
  vendorRoute({
    method: 'DELETE',
    path,
    operationId: 'deletePrice',
    tag,
    summary: 'Delete the price of a plan',
    description: 'The plan can no longer be sold. Existing licences are not affected.',
    scopes: ['admin'],
    lookUp: findPlan,
    handle: async (call) => {
      await call.services.billing.deletePrice(planScope(call))
      return {}
    },
  }),
]
