import { PaymentSchema } from '@licensing/proto/billing'
import type { Refund } from '@licensing/proto/billing'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, isId } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { emptyPage, idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { isoText, period, timestampText } from '../../fields/time.ts'
import { storableText } from '../../fields/text.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'

const paymentSchema = z
  .strictObject({
    id: id('pay'),
    licence_id: id('lic').nullable(),
    session_id: id('cs').nullable(),
    sale_id: z.string().nullable(),
    plan_id: id('pln'),
    external_ref: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    charge_ref: z.string().nullable().describe('The charge’s id at the payment processor.'),
    fee_minor: minorUnitsNumber,
    occurred_at: timestampText,
  })
  .meta({ id: 'Payment' })

const paymentJson = renderer(PaymentSchema, paymentSchema)

const refundSchema = z
  .strictObject({
    id: id('rfd'),
    licence_id: id('lic').nullable(),
    charge_ref: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    lane: z.enum(closedSets.refundKind),
    status: z
      .enum([...closedSets.refundStatus, ...closedSets.disputeStatus])
      .describe('Status of the refund, or of the dispute if `lane` is `chargeback`.'),
    occurred_at: timestampText,
  })
  .meta({ id: 'Refund' })

function refundJson(refund: Refund): z.output<typeof refundSchema> {
  const lane = readMember('refundKind', refund.lane)
  return {
    id: refund.id,
    licence_id: refund.licenceId ?? null,
    charge_ref: refund.chargeRef,
    amount: Number(refund.amount),
    currency: refund.currency,
    lane,
    status: readMember(lane === 'chargeback' ? 'disputeStatus' : 'refundStatus', refund.status),
    occurred_at: isoText(refund.occurredAt),
  }
}

const filters = {
  licence: z.string().describe('A licence’s id.').optional(),
  charge_ref: storableText.optional(),
  ...period,
}
type Filters = z.output<z.ZodObject<typeof filters>>

/** The filters of a list, as billing reads them; undefined if no payment can match them. */
function filtersOf({ licence, charge_ref: chargeRef, since, until }: Filters) {
  if (licence !== undefined && !isId('lic', licence)) return undefined
  return { licenceId: licence, chargeRef, since, until }
}

const payments = { method: 'GET', tag: 'Payments and fees', scopes: ['read'] } as const

export const paymentRoutes: Route[] = [
  vendorRoute({
    ...payments,
    path: '/v1/apps/{app_id}/payments',
    operationId: 'listPayments',
    summary: 'List payments',
    query: z.strictObject({ limit, cursor: idCursor('pay'), ...filters }),
    answer: pageOf(paymentSchema),
    handle: async (call) => {
      const given = filtersOf(call.query)
      if (!given) return { body: emptyPage }
      const { payments: found, hasMore } = await call.services.billing.listPayments({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        ...given,
      })
      return { body: page(found.map(paymentJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    ...payments,
    path: '/v1/apps/{app_id}/refunds',
    operationId: 'listRefunds',
    summary: 'List refunds and chargebacks',
    query: z.strictObject({ limit, cursor: idCursor('rfd'), ...filters }),
    answer: pageOf(refundSchema),
    handle: async (call) => {
      const given = filtersOf(call.query)
      if (!given) return { body: emptyPage }
      const { refunds, hasMore } = await call.services.billing.listRefunds({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        ...given,
      })
      return { body: page(refunds.map(refundJson), hasMore, ({ id }) => id) }
    },
  }),
]
