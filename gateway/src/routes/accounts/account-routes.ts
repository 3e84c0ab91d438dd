import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { accountJson, accountSchema, updateAccountBody } from './account-json.ts'

const tag = 'Account'

export const accountRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/account',
    operationId: 'getAccount',
    tag,
    summary: 'Get the account',
    scopes: ['admin'],
    accountWide: true,
    answer: accountSchema,
    handle: async ({ services, accountId }) => ({
      body: accountJson(await services.catalog.getAccount({ accountId })),
    }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: '/v1/account',
    operationId: 'updateAccount',
    tag,
    summary: 'Update the name or the alert address of the account',
    scopes: ['admin'],
    accountWide: true,
    body: updateAccountBody,
    answer: accountSchema,
    handle: async ({ services, accountId, body }) => {
      // In the contract an empty address clears it.
      const alertEmail = body.alert_email === null ? '' : body.alert_email
      return {
        body: accountJson(await services.catalog.updateAccount({ accountId, name: body.name, alertEmail })),
      }
    },
  }),
]
