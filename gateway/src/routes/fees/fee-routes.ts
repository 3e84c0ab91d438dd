import { FeeSchema } from '@licensing/proto/billing'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const feeSchema = z
  .strictObject({
    id: id('fee'),
    kind: z.enum(closedSets.feeKind),
    amount_minor: minorUnitsNumber.describe('Positive for a charge or a reversal, negative for a credit.'),
    currency: currencyText,
    charge_ref: z.string(),
    application_id: id('app'),
    period: z.string().meta({ examples: ['2026-11'] }),
    occurred_at: timestampText,
  })
  .meta({ id: 'Fee' })

const feeJson = renderer(FeeSchema, feeSchema)

export const feeRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/fees',
    operationId: 'listFees',
    tag: 'Payments and fees',
    summary: 'List the entries of the fee ledger',
    scopes: ['read'],
    accountWide: true,
    query: z.strictObject({ limit, cursor: idCursor('fee') }),
    answer: pageOf(feeSchema),
    handle: async ({ services, accountId, query }) => {
      const { fees, hasMore } = await services.billing.listFees({
        accountId,
        limit: query.limit,
        beforeId: query.cursor,
      })
      return { body: page(fees.map(feeJson), hasMore, ({ id }) => id) }
    },
  }),
]
