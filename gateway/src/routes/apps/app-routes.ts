import { z } from 'zod'
import { ApplicationSchema } from '@licensing/proto/catalog'
import { textLimits } from '@licensing/proto/text'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { optional, text } from '../../fields/text.ts'
import { customerPageBody, customerPageChange, customerPageSchema } from '../customers/customer-page-json.ts'
import { timestampText } from '../../fields/time.ts'
import type { Services } from '../../services.ts'

const tag = 'Applications'

const rootKey = z
  .string()
  .describe(
    'Root key: compile it into the product as `rootKey`. The product trusts only signing keys that are signed by it. The newest one if there are several.',
  )
  .meta({
    pattern: '^lrk_[A-Za-z0-9_-]{43}$',
    examples: ['lrk_AoDtsaUswXreFakMWbowaDTpbAMp2-AQwFqCXczKfU8'],
  })

export const appSchema = z
  .strictObject({
    id: id('app'),
    name: z.string(),
    account_id: id('acct'),
    root_key: rootKey,
    created_at: timestampText,
    expiring_notice_days: z
      .int()
      .describe('`licence.expiring` is sent when a licence has fewer days left; 0: never.'),
    customer_page: customerPageSchema.describe('The page on which your customers see their licence.'),
  })
  .meta({ id: 'Application' })

const appJson = renderer(ApplicationSchema, appSchema)

const name = text(textLimits.name).meta({ examples: ['Acme Studio'] })
const createAppBody = z.strictObject({ name })

const maxNoticeDays = 90

const updateAppBody = z.strictObject({
  name: optional(name),
  expiring_notice_days: optional(
    z
      .int('must be a whole number')
      .min(0, 'must not be negative')
      .max(maxNoticeDays, `must be at most ${maxNoticeDays}`),
  ).describe('`licence.expiring` is sent when a licence has fewer days left. 0: never.'),
  customer_page: optional(customerPageBody).describe(
    'Settings of the page on which your customers see their licence. Absent fields stay; null sets the default.',
  ),
})

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
      return { body: appJson(made) }
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
      const rows = applications.map((application, at) => appJson({ ...application, rootKey: rootKeys[at]! }))
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
      return { body: appJson({ ...application, rootKey: rootKey! }) }
    },
  }),
  vendorRoute({
    method: 'PATCH',
    path: '/v1/apps/{app_id}',
    operationId: 'updateApplication',
    tag,
    summary: 'Update an application',
    description: 'Send any subset of the fields.',
    scopes: ['admin'],
    body: updateAppBody,
    answer: appSchema,
    handle: async (call) => {
      const { name, expiring_notice_days: expiringNoticeDays, customer_page: page } = call.body
      // The root key is read first, so that nothing is changed if the answer cannot be made.
      const [rootKey] = await rootKeysOf(call.services, [call.params.app_id])
      const application = await call.services.catalog.updateApplication({
        ...within(call),
        name,
        expiringNoticeDays,
        customerPage: page && customerPageChange(page),
      })
      return { body: appJson({ ...application, rootKey: rootKey! }) }
    },
  }),
]

/** The newest root key of each application, in the order of the ids. */
async function rootKeysOf(services: Services, applicationIds: string[]): Promise<string[]> {
  if (applicationIds.length === 0) return []
  return (await services.rootKeys.getRootKeys({ applicationIds })).rootKeys
}
