import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { LicenceFieldsSchema } from '@licensing/proto/licensing'
import type { ImportLicencesResponse } from '@licensing/proto/licensing'
import { z } from 'zod'
import { isId, id } from '../../fields/id.ts'
import { fieldsFrom } from '../../fields/messages.ts'
import { emptyPage, page, pageOf } from '../../fields/page.ts'
import { bodyHash } from '../../http/canonical-json.ts'
import { idempotencyKeyOf } from '../../read-input.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { importLicencesBody, issueLicenceBody, listLicencesQuery } from './licence-inputs.ts'
import { licenceJson, licenceSchema } from './licence-json.ts'

const tag = 'Licences'
const all = '/v1/apps/{app_id}/licences'

const importLimit = 2 * 1024 * 1024
const importMs = 20_000

const importSchema = z
  .strictObject({
    items: z
      .array(
        z.strictObject({
          legacy_key: z.string(),
          result: z.enum(closedSets.importResult),
          licence_id: id('lic').nullable(),
          error: z.strictObject({ code: z.string(), detail: z.string() }).nullable(),
        }),
      )
      .describe('In the order sent.'),
    summary: z.strictObject({ created: z.int(), existing: z.int(), failed: z.int() }),
  })
  .meta({ id: 'ImportResult' })

export const licenceRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: all,
    operationId: 'issueLicence',
    tag,
    summary: 'Issue a licence',
    description:
      'A retry with the same `Idempotency-Key` and the same body returns the same licence. No second licence is created.',
    scopes: ['issue'],
    needsIdempotencyKey: true,
    body: issueLicenceBody,
    status: 201,
    answer: licenceSchema,
    answerHeaders: { 'Idempotent-Replayed': '`true` if the licence was issued before.' },
    errors: ['plan_archived'],
    handle: async (call) => {
      const { body } = call
      const { licence, replayed } = await call.services.licensing.issueLicence({
        ...within(call),
        actor: call.actorId,
        idempotencyKey: idempotencyKeyOf(call),
        bodyHash: bodyHash(call.sentBody),
        planId: body.plan_id,
        fields: fieldsFrom(LicenceFieldsSchema, body).fields,
      })
      const issued = { body: licenceJson(licence!) }
      return replayed ? { ...issued, headers: { 'idempotent-replayed': 'true' } } : issued
    },
  }),
  vendorRoute({
    method: 'POST',
    path: `${all}/import`,
    operationId: 'importLicences',
    tag,
    summary: 'Import licences from another system',
    description:
      'Each item is identified by its `legacy_key`. Items that were imported before are reported as `existing` and not changed.',
    scopes: ['issue'],
    bodyLimit: importLimit,
    body: importLicencesBody,
    answer: importSchema,
    handle: async (call) => {
      const { items, dry_run: dryRun = false } = call.body
      const request = { ...within(call), actor: call.actorId, items, dryRun }
      return {
        body: importJson(await call.services.licensing.importLicences(request, { timeoutMs: importMs })),
      }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listLicences',
    tag,
    summary: 'List licences',
    description:
      'Filters can be combined. If few licences match all filters, a page can be short or empty: continue until ' +
      '`next_cursor` is null.',
    scopes: ['read'],
    query: listLicencesQuery,
    answer: pageOf(licenceSchema),
    handle: async (call) => {
      const { plan, last_seen: lastSeen, ...query } = call.query
      if (plan !== undefined && !isId('pln', plan)) return { body: emptyPage }
      const { licences, hasMore, lookedUntil } = await call.services.licensing.listLicences({
        ...within(call),
        limit: query.limit,
        beforeId: query.cursor,
        status: query.status,
        planId: plan,
        domain: query.domain,
        externalRef: query.external_ref,
        seenSince: lastSeen?.since,
        neverSeen: lastSeen?.never ?? false,
        metadata: query.metadata && { entries: query.metadata },
        trial: query.trial,
      })
      return { body: page(licences.map(licenceJson), hasMore, ({ id }) => id, lookedUntil) }
    },
  }),
]

function importJson(response: ImportLicencesResponse): z.output<typeof importSchema> {
  return {
    items: response.items.map((item) => ({
      legacy_key: item.legacyKey,
      result: readMember('importResult', item.result),
      licence_id: item.licenceId ?? null,
      error: item.error ? { code: item.error.code, detail: item.error.detail } : null,
    })),
    summary: { created: response.created, existing: response.existing, failed: response.failed },
  }
}
