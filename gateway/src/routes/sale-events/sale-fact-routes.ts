import { create } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import {
  ReportSaleFactResponse_Outcome as Outcome,
  SaleCancellationSchema,
  SaleFailureSchema,
  SaleRefundSchema,
  SaleRenewalSchema,
} from '@licensing/proto/billing'
import type { ReportSaleFactRequest } from '@licensing/proto/billing'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { currency, minorUnits, minorUnitsNumber } from '../../fields/money.ts'
import { optional, text } from '../../fields/text.ts'
import { isoText, timestamp, timestampText } from '../../fields/time.ts'
import { bodyHash } from '../../http/canonical-json.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route, VendorCall } from '../../route.ts'
import { listedSaleEventJson, listedSaleEventSchema } from './sale-event-routes.ts'

const tag = 'Checkout and sales'
const one = '/v1/apps/{app_id}/sale-events/{sale_id}'

interface OneSale {
  accountId: string
  params: { readonly app_id: string; readonly sale_id: string }
}

/** The sale in the path. @throws ServiceError `not_found` if no sale can have this id */
function saleScope(call: OneSale) {
  const { sale_id: saleId } = call.params
  if (problemOfText(saleId, textLimits.reference)) {
    throw new ServiceError('not_found', 'there is no such sale: the id of a sale has 1 to 255 characters')
  }
  return { ...within(call), saleId }
}

const saleFactSchema = z
  .strictObject({
    id: z
      .string()
      .nullable()
      .describe('The shop’s id of the refund, renewal or failure; null for a cancellation.'),
    sale_id: z.string(),
    licence_id: id('lic').nullable().describe('The licence; null while the report waits.'),
    status: z
      .enum(closedSets.licenceStatus)
      .nullable()
      .describe(
        'Status of the licence; null while the report waits. A revocation may follow within 5 seconds.',
      ),
  })
  .meta({ id: 'SaleFact' })

type Fact = Exclude<ReportSaleFactRequest['fact'], { case: undefined }>

/** Reports a fact about the sale in the path. `same` has the fields that count if the shop repeats it. */
async function report(
  call: Pick<VendorCall, 'services'> & OneSale,
  occurredAt: z.output<typeof timestamp>,
  same: unknown,
  fact: Fact,
) {
  const { outcome, licenceId, licenceStatus } = await call.services.billing.reportSaleFact({
    ...saleScope(call),
    occurredAt,
    bodyHash: bodyHash(same),
    fact,
  })
  return {
    status: outcome === Outcome.WAITING ? 202 : outcome === Outcome.KNOWN ? 200 : 201,
    body: {
      id: fact.case === 'cancellation' ? null : fact.value.id,
      sale_id: call.params.sale_id,
      licence_id: licenceId ?? null,
      status: licenceStatus === undefined ? null : readMember('licenceStatus', licenceStatus),
    },
  }
}

const common = {
  tag,
  scopes: ['issue'],
  status: 201,
  alsoAnswers: {
    200: 'It was reported before.',
    202: 'It waits until the sale is provisioned or, if it concerns a renewal, until that is reported.',
  },
  answer: saleFactSchema,
  errors: ['idempotency_mismatch', 'quota_exceeded'],
  lookUp: async (call: OneSale) => saleScope(call),
} as const

const shopId = (what: string, example: string) =>
  text(textLimits.reference)
    .meta({ examples: [example] })
    .describe(`Id of the ${what} in the other shop.`)

export const saleFactRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getSaleEvent',
    tag,
    summary: 'Get a sale of another shop, with all that was reported about it',
    scopes: ['read'],
    answer: z
      .strictObject({
        ...listedSaleEventSchema.shape,
        facts: z
          .array(
            z
              .strictObject({
                kind: z.enum(closedSets.saleFactKind),
                id: z.string().nullable().describe('The shop’s id; null for a cancellation.'),
                amount: minorUnitsNumber
                  .nullable()
                  .describe('As the shop reported it; null if the report has none.'),
                occurred_at: timestampText,
              })
              .meta({ id: 'ReportedFact' }),
          )
          .describe('What happened to the sale, in the order of `occurred_at`.'),
      })
      .meta({ id: 'SaleEventWithFacts' }),
    handle: async (call) => {
      const { saleEvent, facts } = await call.services.billing.getSaleEvent(saleScope(call))
      return {
        body: {
          ...listedSaleEventJson(saleEvent!),
          facts: facts.map(({ kind, id, amount, occurredAt }) => ({
            kind: readMember('saleFactKind', kind),
            id: id ?? null,
            amount: amount === undefined ? null : Number(amount),
            occurred_at: isoText(occurredAt),
          })),
        },
      }
    },
  }),
  vendorRoute({
    ...common,
    method: 'POST',
    path: `${one}/refunds`,
    operationId: 'reportSaleRefund',
    summary: 'Report a refund or a chargeback of a sale of another shop',
    description:
      'It has the effects of a refund or chargeback at the payment processor, and may be reported before the sale.',
    body: z.strictObject({
      refund_id: shopId('refund', 'refund-17'),
      amount: minorUnits.describe(
        'Minor units: at most what earlier refunds left of the payment; of a chargeback, at most the payment.',
      ),
      kind: optional(z.enum(['refund', 'chargeback'])).describe('Default: `refund`.'),
      renewal_id: optional(text(textLimits.reference)).describe(
        'The renewal that was refunded. Default: the first payment of the sale.',
      ),
      occurred_at: timestamp,
    }),
    handle: async (call) => {
      const { refund_id: id, amount, kind = 'refund', renewal_id: renewalId, occurred_at } = call.body
      const same = { ...(call.sentBody as object), kind }
      const refund = { id, amount, kind, ...(renewalId !== undefined && { renewalId }) }
      const value = create(SaleRefundSchema, refund)
      return report(call, occurred_at, same, { case: 'refund', value })
    },
  }),
  vendorRoute({
    ...common,
    method: 'POST',
    path: `${one}/renewals`,
    operationId: 'reportSaleRenewal',
    summary: 'Report a renewal of a sale of another shop',
    description: 'The licence lasts until `expires_on`, to which no time is added.',
    body: z.strictObject({
      renewal_id: shopId('renewal', 'order-2027-0042'),
      amount: minorUnits,
      currency,
      occurred_at: timestamp,
      expires_on: timestamp.describe(
        'The new end of the purchase. It never moves the end back, and a sale without an end stays without one.',
      ),
    }),
    handle: async (call) => {
      const { renewal_id: id, occurred_at, expires_on: expiresOn, ...money } = call.body
      const value = create(SaleRenewalSchema, { id, ...money, expiresOn })
      return report(call, occurred_at, call.sentBody, { case: 'renewal', value })
    },
  }),
  vendorRoute({
    ...common,
    method: 'POST',
    path: `${one}/failures`,
    operationId: 'reportSaleFailure',
    summary: 'Report a failed payment of a sale of another shop',
    description: 'Three in a row, without a renewal in between, suspend the licence.',
    body: z.strictObject({ failure_id: shopId('failed payment', 'attempt-3'), occurred_at: timestamp }),
    handle: async (call) => {
      const { failure_id: id, occurred_at } = call.body
      const value = create(SaleFailureSchema, { id })
      return report(call, occurred_at, call.sentBody, { case: 'failure', value })
    },
  }),
  vendorRoute({
    ...common,
    method: 'POST',
    path: `${one}/cancellation`,
    operationId: 'reportSaleCancellation',
    summary: 'Report that a sale of another shop was cancelled',
    description: 'A sale is cancelled once. Later renewals do not change its licence.',
    body: z.strictObject({
      occurred_at: timestamp,
      ends_on: optional(timestamp).describe('When the purchase ends. Default: `occurred_at`.'),
    }),
    handle: async (call) => {
      const { occurred_at, ends_on: endsOn } = call.body
      const value = create(SaleCancellationSchema, endsOn && { endsOn })
      return report(call, occurred_at, call.sentBody, { case: 'cancellation', value })
    },
  }),
]
