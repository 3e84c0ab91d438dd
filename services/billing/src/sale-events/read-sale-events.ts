import { messageOf } from '@licensing/grpc/fields'
import { pageOf } from '@licensing/database/page'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { ListedSaleEventSchema, SaleFactSchema } from '@licensing/proto/billing'
import type { ListedSaleEvent } from '@licensing/proto/billing'
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
    facts: facts.map((fact) =>
      messageOf(SaleFactSchema, {
        ...fact,
        kind: readMember('saleFactKind', fact.kind),
        id: fact.fact_id || null,
      }),
    ),
  }
}

function listedSaleMessage(row: SaleRow): ListedSaleEvent {
  return messageOf(ListedSaleEventSchema, { ...row, status: readMember('saleStatus', row.status) })
}
