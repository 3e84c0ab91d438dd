import { ListedSaleEventSchema, SaleEventSchema } from '@licensing/proto/billing'
import { textLimits } from '@licensing/proto/text'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, reference } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { currency, currencyText, minorUnits, minorUnitsNumber } from '../../fields/money.ts'
import { metadata } from '../../fields/metadata.ts'
import { optional, text } from '../../fields/text.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { period, timestamp, timestampText } from '../../fields/time.ts'
import { bodyHash } from '../../http/canonical-json.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { externalRef } from '../licences/licence-fields.ts'

const saleEventSchema = z
  .strictObject({
    id: id('sale'),
    sale_id: z.string(),
    licence_id: id('lic').nullable(),
    status: z.enum(closedSets.saleStatus),
  })
  .meta({ id: 'SaleEvent' })

const saleEventJson = renderer(SaleEventSchema, saleEventSchema)

const saleEventBody = z
  .strictObject({
    sale_id: text(textLimits.reference)
      .meta({ examples: ['order-2026-0042'] })
      .describe('Id of the sale in the other shop.'),
    external_ref: externalRef,
    plan_id: optional(reference('pln', 'plan')).describe('Send either `plan_id` or `price_id`.'),
    price_id: optional(text(textLimits.reference)).describe('The price of a plan.'),
    amount: minorUnits,
    currency,
    occurred_at: timestamp,
    expires_on: optional(timestamp).describe(
      'Default: from `period_months` of the plan’s price; without it, the licence never expires.',
    ),
    metadata: optional(metadata).describe('Merged into the metadata of the licence.'),
    updates_until: optional(timestamp).describe(
      'The product may be updated to releases until this time. Default: from `updates_months` of the price, if `price_id` is given.',
    ),
  })
  .superRefine(({ plan_id: planId, price_id: priceId }, context) => {
    if (planId === undefined && priceId === undefined) {
      context.addIssue({
        code: 'custom',
        path: ['plan_id'],
        message: 'is required without price_id',
      })
    }
    if (planId !== undefined && priceId !== undefined) {
      context.addIssue({
        code: 'custom',
        path: ['price_id'],
        message: 'cannot be combined with plan_id: send one of the two',
      })
    }
  })

export const listedSaleEventSchema = z
  .strictObject({
    id: id('sale'),
    sale_id: z.string(),
    external_ref: z.string(),
    plan_id: id('pln'),
    amount: minorUnitsNumber,
    currency: currencyText,
    occurred_at: timestampText,
    status: z.enum(closedSets.saleStatus),
    licence_id: id('lic').nullable(),
    reason: z.string().nullable().describe('Error code: why no licence could be issued; null otherwise.'),
  })
  .meta({ id: 'ListedSaleEvent' })

export const listedSaleEventJson = renderer(ListedSaleEventSchema, listedSaleEventSchema)

export const saleEventRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/sale-events',
    operationId: 'listSaleEvents',
    tag: 'Checkout and sales',
    summary: 'List sales of another shop, latest report first',
    description: '`since` and `until` filter by `occurred_at`. Filters can be combined.',
    scopes: ['read'],
    query: z.strictObject({
      limit,
      cursor: idCursor('sale'),
      status: z.enum(closedSets.saleStatus).optional(),
      ...period,
    }),
    answer: pageOf(listedSaleEventSchema),
    handle: async (call) => {
      const { saleEvents, hasMore } = await call.services.billing.listSaleEvents({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        status: call.query.status,
        since: call.query.since,
        until: call.query.until,
      })
      return { body: page(saleEvents.map(listedSaleEventJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: '/v1/apps/{app_id}/sale-events',
    operationId: 'recordSaleEvent',
    tag: 'Checkout and sales',
    summary: 'Report a sale of another shop',
    description: 'Provisions the licence as a checkout does. There is no fee. A retry has no second effect.',
    scopes: ['issue'],
    body: saleEventBody,
    status: 201,
    alsoAnswers: { 200: 'The sale was reported before.' },
    answer: saleEventSchema,
    handle: async (call) => {
      const { body } = call
      const { saleEvent, created } = await call.services.billing.recordSaleEvent({
        ...within(call),
        saleId: body.sale_id,
        externalRef: body.external_ref,
        planId: body.plan_id,
        priceId: body.price_id,
        amount: body.amount,
        currency: body.currency,
        occurredAt: body.occurred_at,
        expiresOn: body.expires_on,
        bodyHash: bodyHash(call.sentBody),
        metadata: body.metadata && { entries: body.metadata },
        updatesUntil: body.updates_until,
      })
      return { status: created ? 201 : 200, body: saleEventJson(saleEvent!) }
    },
  }),
]
