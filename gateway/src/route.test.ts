import { expect, test } from 'vitest'
import { keylessRoute, vendorRoute, within } from './route.ts'
import { routes } from './routes/table.ts'

const spec = {
  method: 'GET',
  path: '/v1/apps/{app_id}/plans',
  operationId: 'x',
  tag: 'x',
  summary: 'x',
} as const
const firstPage = { limit: 50, beforeId: '' }

test('by its type, only the call of a vendor has an account', () => {
  const vendor = vendorRoute({
    ...spec,
    scopes: ['read'],
    handle: async (call) => {
      await call.services.catalog.listPlans({ ...within(call), ...firstPage })
      // @ts-expect-error -- the account and application are missing
      await call.services.catalog.listPlans(firstPage)
      // @ts-expect-error -- only an activation has a token
      void call.token
      return {}
    },
  })
  const product = keylessRoute({
    ...spec,
    audience: 'product',
    handle: async (call) => {
      // @ts-expect-error -- a product has no account
      within(call)
      // @ts-expect-error -- a product has no API key
      void call.actorId
      // @ts-expect-error -- a product has no token
      void call.token
      return {}
    },
  })
  const activation = keylessRoute({
    ...spec,
    audience: 'activation',
    handle: async (call) => {
      // @ts-expect-error -- an activation has a token and no account
      void call.accountId
      call.token.at(0)
      return {}
    },
  })
  // @ts-expect-error -- a vendor's route must be a vendorRoute, which has scopes
  keylessRoute({ ...spec, audience: 'vendor', handle: async () => ({}) })
  expect([vendor, product, activation].map(({ audience }) => audience)).toEqual([
    'vendor',
    'product',
    'activation',
  ])
})

test('a route has scopes if and only if its calls have an account', () => {
  for (const route of routes) expect(route.scopes.length > 0, route.path).toBe(route.audience === 'vendor')
})
