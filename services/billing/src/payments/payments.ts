import { messageOf } from '@licensing/grpc/fields'
import { pageOf } from '@licensing/database/page'
import { PaymentSchema } from '@licensing/proto/billing'
import type { Payment } from '@licensing/proto/billing'
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

function paymentMessage(row: PaymentRow): Payment {
  return messageOf(PaymentSchema, {
    ...row,
    session_id: row.sale_id === null ? row.purchase_ref : null,
    occurred_at: row.charged_at ?? row.paid_at,
  })
}

const maxFound = 20

/** Finds licences by references that only billing knows. */
export const findLicencesOfSale: Handler<'findLicencesOfSale'> = async ({ sql }, request) => {
  if (!isStorable(request.query)) return { licences: [] }
  const found = await findLicencesOf(sql, request, maxFound)
  return { licences: found.map(({ licence_id: licenceId, matched }) => ({ licenceId, matched })) }
}
