import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf } from '@licensing/database/page'
import type { PaymentSchema } from '@licensing/proto/billing'
import { isStorable } from '@licensing/proto/text'
import type { Handler } from '../dependencies.ts'
import { requestedPeriod } from '../period-queries.ts'
import { findLicencesOf, listPaymentRows } from './payment-queries.ts'
import type { PaymentRow } from './payment-queries.ts'

export const listPayments: Handler<'listPayments'> = async ({ sql }, request) => {
  const rows = await listPaymentRows(sql, { ...request, ...requestedPeriod(request) }, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { payments: page.map(paymentMessage), hasMore }
}

function paymentMessage(row: PaymentRow): MessageInitShape<typeof PaymentSchema> {
  return {
    id: row.id,
    planId: row.plan_id,
    externalRef: row.external_ref,
    amount: row.amount,
    currency: row.currency,
    feeMinor: row.fee_minor,
    occurredAt: timestampFromDate(row.charged_at ?? row.paid_at),
    ...(row.licence_id !== null && { licenceId: row.licence_id }),
    ...(row.sale_id === null ? { sessionId: row.purchase_ref } : { saleId: row.sale_id }),
    ...(row.charge_ref !== null && { chargeRef: row.charge_ref }),
  }
}

const maxFound = 20

/** Finds licences by references that only billing knows. */
export const findLicencesOfSale: Handler<'findLicencesOfSale'> = async ({ sql }, request) => {
  if (!isStorable(request.query)) return { licences: [] }
  const found = await findLicencesOf(sql, request, maxFound)
  return { licences: found.map(({ licence_id: licenceId, matched }) => ({ licenceId, matched })) }
}
