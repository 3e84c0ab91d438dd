import { PaymentSchema } from '@licensing/proto/billing'
import { z } from 'zod'
import { id, isId } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { emptyPage, idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { period, timestampText } from '../../fields/time.ts'
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

export const paymentRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/payments',
    operationId: 'listPayments',
    tag: 'Payments and fees',
    summary: 'List payments',
    scopes: ['read'],
    query: z.strictObject({
      limit,
      cursor: idCursor('pay'),
      licence: z.string().describe('A licence’s id.').optional(),
      charge_ref: storableText.optional(),
      ...period,
    }),
    answer: pageOf(paymentSchema),
    handle: async (call) => {
      const { licence } = call.query
      if (licence !== undefined && !isId('lic', licence)) return { body: emptyPage }
      const { payments, hasMore } = await call.services.billing.listPayments({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        since: call.query.since,
        until: call.query.until,
        licenceId: licence,
        chargeRef: call.query.charge_ref,
      })
      return { body: page(payments.map(paymentJson), hasMore, ({ id }) => id) }
    },
  }),
]
