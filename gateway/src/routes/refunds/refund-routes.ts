import type { Refund } from '@licensing/proto/billing'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, isId } from '../../fields/id.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { emptyPage, idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { period, isoText, timestampText } from '../../fields/time.ts'
import { storableText } from '../../fields/text.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'

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

export const refundRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/refunds',
    operationId: 'listRefunds',
    tag: 'Payments and fees',
    summary: 'List refunds and chargebacks',
    scopes: ['read'],
    query: z.strictObject({
      limit,
      cursor: idCursor('rfd'),
      licence: z.string().describe('A licence’s id.').optional(),
      charge_ref: storableText.optional(),
      ...period,
    }),
    answer: pageOf(refundSchema),
    handle: async (call) => {
      const { licence } = call.query
      if (licence !== undefined && !isId('lic', licence)) return { body: emptyPage }
      const { refunds, hasMore } = await call.services.billing.listRefunds({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        since: call.query.since,
        until: call.query.until,
        licenceId: licence,
        chargeRef: call.query.charge_ref,
      })
      return { body: page(refunds.map(refundJson), hasMore, ({ id }) => id) }
    },
  }),
]
