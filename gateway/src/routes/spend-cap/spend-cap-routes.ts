import { SpendCapSchema } from '@licensing/proto/billing'
import { z } from 'zod'
import { renderer } from '../../fields/messages.ts'
import { currency, currencyText, minorUnits, minorUnitsNumber } from '../../fields/money.ts'
import { optional } from '../../fields/text.ts'
import { timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const tag = 'Payments and fees'
const path = '/v1/spend-cap'

const spendCapSchema = z
  .strictObject({
    period: z
      .string()
      .describe('The UTC month.')
      .meta({ examples: ['2026-11'] }),
    cap_minor: minorUnitsNumber.nullable().describe('null: no cap.'),
    spent_minor: minorUnitsNumber,
    currency: currencyText.nullable(),
    reached_at: timestampText.nullable(),
    paused: z.boolean().describe('Whether checkouts that cost a fee are paused.'),
  })
  .meta({ id: 'SpendCap' })

const spendCapJson = renderer(SpendCapSchema, spendCapSchema)

const setSpendCapBody = z
  .strictObject({
    // Required, so that omitting it by mistake does not remove the cap.
    cap_minor: minorUnits.nullable().describe('null removes the cap.'),
    currency: optional(currency),
  })
  .superRefine(({ cap_minor: capMinor, currency: of }, context) => {
    if (capMinor === null || of !== undefined) return
    context.addIssue({ code: 'custom', path: ['currency'], message: 'is required with a cap' })
  })

export const spendCapRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path,
    operationId: 'getSpendCap',
    tag,
    summary: 'Get the monthly cap on transaction fees',
    scopes: ['admin'],
    accountWide: true,
    answer: spendCapSchema,
    handle: async ({ services, accountId }) => ({
      body: spendCapJson(await services.billing.getSpendCap({ accountId })),
    }),
  }),
  vendorRoute({
    method: 'PUT',
    path,
    operationId: 'setSpendCap',
    tag,
    summary: 'Set or remove the monthly cap on transaction fees',
    scopes: ['admin'],
    accountWide: true,
    body: setSpendCapBody,
    answer: spendCapSchema,
    handle: async ({ services, accountId, body }) => {
      const request = { accountId, capMinor: body.cap_minor ?? undefined, currency: body.currency }
      return { body: spendCapJson(await services.billing.setSpendCap(request)) }
    },
  }),
]
