import { z } from 'zod'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { appJson, appSchema, createAppBody } from './app-json.ts'
import { rootKeysOf } from './root-keys.ts'

const tag = 'Applications'

export const appRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/apps',
    operationId: 'createApplication',
    tag,
    summary: 'Create an application',
    scopes: ['admin'],
    accountWide: true,
    body: createAppBody,
    status: 201,
    answer: appSchema,
    errors: ['quota_exceeded'],
    handle: async ({ services, accountId, body }) => {
      const made = await services.catalog.createApplication({ accountId, name: body.name })
      const rootKey = made.rootKey ?? (await rootKeysOf(services, [made.id]))[0]!
      return { body: appJson(made, rootKey) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/apps',
    operationId: 'listApplications',
    tag,
    summary: 'List applications',
    description: 'An API key of one application gets only that application.',
    scopes: ['admin', 'read'],
    query: z.strictObject({ limit, cursor: idCursor('app') }),
    answer: pageOf(appSchema),
    handle: async ({ services, accountId, onlyApplicationId, query }) => {
      const { applications, hasMore } = await services.catalog.listApplications({
        accountId,
        limit: query.limit,
        beforeId: query.cursor,
        onlyApplicationId,
      })
      const rootKeys = await rootKeysOf(
        services,
        applications.map((application) => application.id),
      )
      const rows = applications.map((application, at) => appJson(application, rootKeys[at]!))
      return { body: page(rows, hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}',
    operationId: 'getApplication',
    tag,
    summary: 'Get an application',
    scopes: ['admin'],
    answer: appSchema,
    handle: async (call) => {
      const application = await call.services.catalog.getApplication(within(call))
      const [rootKey] = await rootKeysOf(call.services, [application.id])
      return { body: appJson(application, rootKey!) }
    },
  }),
]
