import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { findPlan, ofPlan } from '../plans/find-plan.ts'
import { priceJson, priceSchema, setPriceBody } from './price-json.ts'

const tag = 'Plans'
const path = '/v1/apps/{app_id}/plans/{plan_id}/price'

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
    exists: findPlan,
    handle: async (call) => {
      const { price_id: priceId, amount, currency, mode, period_months: periodMonths } = call.body
      const price = { planId: call.params.plan_id, priceId, amount, currency, mode, periodMonths }
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
    handle: async (call) => ({ body: priceJson(await call.services.billing.getPrice(ofPlan(call))) }),
  }),
  vendorRoute({
    method: 'DELETE',
    path,
    operationId: 'deletePrice',
    tag,
    summary: 'Delete the price of a plan',
    description: 'The plan can no longer be sold. Existing licences are not affected.',
    scopes: ['admin'],
    exists: findPlan,
    handle: async (call) => {
      await call.services.billing.deletePrice(ofPlan(call))
      return {}
    },
  }),
]
