import { closedSets } from '@licensing/proto/closed-sets'
import { AlertSchema } from '@licensing/proto/notifier'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const alertSchema = z
  .strictObject({
    id: id('alrt'),
    kind: z.enum(closedSets.alertKind),
    app_id: id('app').nullable().describe('null if the alert is about the whole account.'),
    endpoint_id: id('whe').nullable(),
    detail: z.string().describe('What happened and what to do.'),
    created_at: timestampText,
    mailed_at: timestampText
      .nullable()
      .describe('When it was e-mailed; null until then, and if the account has no alert address.'),
  })
  .meta({ id: 'Alert' })

const alertJson = renderer(AlertSchema, alertSchema)

export const alertRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/alerts',
    operationId: 'listAlerts',
    tag: 'Webhooks',
    summary: 'List alerts',
    description: 'An API key of one application gets the alerts of that application.',
    scopes: ['read'],
    query: z.strictObject({ limit, cursor: idCursor('alrt') }),
    answer: pageOf(alertSchema),
    handle: async ({ services, accountId, onlyApplicationId, query }) => {
      const { alerts, hasMore } = await services.notifier.listAlerts({
        accountId,
        onlyApplicationId,
        limit: query.limit,
        beforeId: query.cursor,
      })
      return { body: page(alerts.map(alertJson), hasMore, ({ id }) => id) }
    },
  }),
]
