import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf } from '@licensing/database/page'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { ListedSaleEventSchema } from '@licensing/proto/billing'
import { closedSets, isMember, readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { requestedPeriod } from '../period-queries.ts'
import { findSale, listSaleRows } from './sale-event-queries.ts'
import type { SaleRow } from './sale-event-queries.ts'
import { findSaleFacts } from './sale-fact-queries.ts'
import { inOrder } from './sale-facts.ts'

export const listSaleEvents: Handler<'listSaleEvents'> = async ({ sql }, request) => {
  if (request.status !== undefined && !isMember('saleStatus', request.status)) {
    throw invalid('/status', `must be one of ${closedSets.saleStatus.join(', ')}`)
  }
  const rows = await listSaleRows(sql, { ...request, ...requestedPeriod(request) }, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { saleEvents: page.map(listedSaleMessage), hasMore }
}

export const getSaleEvent: Handler<'getSaleEvent'> = async ({ sql }, request) => {
  const sale = await findSale(sql, request)
  if (!sale) {
    throw new ServiceError('not_found', 'there is no such sale in this application')
  }
  const facts = inOrder(await findSaleFacts(sql, request), sale)
  return {
    saleEvent: listedSaleMessage(sale),
    facts: facts.map(({ kind, fact_id: id, amount, occurred_at }) => ({
      kind: readMember('saleFactKind', kind),
      occurredAt: timestampFromDate(occurred_at),
      ...(id !== '' && { id }),
      ...(amount !== null && { amount }),
    })),
  }
}

function listedSaleMessage(row: SaleRow): MessageInitShape<typeof ListedSaleEventSchema> {
  return {
    id: row.id,
    saleId: row.sale_id,
    externalRef: row.external_ref,
    planId: row.plan_id,
    amount: row.amount,
    currency: row.currency,
    occurredAt: timestampFromDate(row.occurred_at),
    status: readMember('saleStatus', row.status),
    ...(row.licence_id !== null && { licenceId: row.licence_id }),
    ...(row.failure_reason !== null && { failureReason: row.failure_reason }),
  }
}
