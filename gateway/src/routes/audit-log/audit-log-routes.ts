import { AuditLogEntrySchema } from '@licensing/proto/catalog'
import type { AuditLogEntry } from '@licensing/proto/catalog'
import { z } from 'zod'
import { id, isId } from '../../fields/id.ts'
import { changesSchema, renderer } from '../../fields/messages.ts'
import { emptyPage, idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { storableText } from '../../fields/text.ts'
import { period, timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'
import { actorName, namesOf } from '../members/actor-names.ts'

const entrySchema = z
  .strictObject({
    id: id('aud'),
    at: timestampText,
    actor: z
      .string()
      .describe(
        'Who changed it: the id of an API key or member, or `operator`, `mail`, `processor` or `notifier`.',
      ),
    operation: z
      .string()
      .describe(
        'The operation of this document, the operator’s command, or `confirmAlertEmail`, `releaseProcessor`, `disableEndpoint` or `signIn`.',
      ),
    resource_id: z.string().describe('What was changed.'),
    request_id: z.string().nullable().describe('`X-Request-Id` of the request; null without a request.'),
    actor_name: actorName,
    app_id: id('app').nullable().describe('null if the change is about the whole account.'),
    changes: changesSchema.describe(
      'Each changed field with its previous and new value; null if there was or is none. Secrets are always null.',
    ),
  })
  .meta({ id: 'AuditLogEntry' })

const ofEntry = renderer(AuditLogEntrySchema, entrySchema.omit({ actor_name: true, changes: true }))

function entryJson(
  entry: AuditLogEntry,
  names: Readonly<Record<string, string>>,
): z.output<typeof entrySchema> {
  return {
    ...ofEntry(entry),
    actor_name: names[entry.actor] ?? null,
    changes: changesSchema.parse(JSON.parse(entry.changes)),
  }
}

export const auditLogRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/audit-log',
    operationId: 'listAuditLog',
    tag: 'Account',
    summary: 'List the changes of the account, its applications and settings',
    description:
      'Who changed what, for 400 days. Licences have their own history. An API key of one application gets the changes of that application.',
    scopes: ['admin'],
    query: z.strictObject({
      limit,
      cursor: idCursor('aud'),
      actor: storableText.optional(),
      operation: storableText.optional(),
      app: z.string().describe('An application’s id.').optional(),
      ...period,
    }),
    answer: pageOf(entrySchema),
    handle: async ({ services, accountId, onlyApplicationId, query }) => {
      const { app = onlyApplicationId, limit, cursor, ...filters } = query
      const isVisible = onlyApplicationId === undefined || app === onlyApplicationId
      if (app !== undefined && !(isId('app', app) && isVisible)) return { body: emptyPage }
      const { entries, hasMore, lookedUntil } = await services.catalog.listAuditLog({
        accountId,
        limit,
        beforeId: cursor,
        applicationId: app,
        ...filters,
      })
      const names = await namesOf({ services, accountId }, entries)
      const rows = entries.map((entry) => entryJson(entry, names))
      return { body: page(rows, hasMore, ({ id }) => id, lookedUntil) }
    },
  }),
]
