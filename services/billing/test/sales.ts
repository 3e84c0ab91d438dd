import type { SaleRow } from '../src/sale-events/sale-event-queries.ts'
import type { SaleFactRow } from '../src/sale-events/sale-fact-queries.ts'

/** A sale of 100 in another shop. */
export function givenSale(): SaleRow {
  return {
    id: 'sale_1',
    account_id: 'acct_1',
    application_id: 'app_1',
    sale_id: 'order-1',
    body_hash: Buffer.alloc(0),
    external_ref: 'cust-1',
    plan_id: 'pln_1',
    amount: 100n,
    currency: 'usd',
    occurred_at: new Date('2026-10-10T12:00:00Z'),
    expires_on: null,
    updates_until: null,
    updates_months: null,
    metadata: {},
    status: 'provisioned',
    licence_id: 'lic_1',
    failure_reason: null,
    created_at: new Date('2026-10-10T12:00:01Z'),
  }
}

/** Facts about this sale. */
export function factsOf(
  ...reported: (Pick<SaleFactRow, 'kind' | 'occurred_at'> & Partial<SaleFactRow>)[]
): SaleFactRow[] {
  const { application_id, sale_id } = givenSale()
  return reported.map((fact) => ({
    application_id,
    sale_id,
    fact_id: '',
    body_hash: Buffer.alloc(0),
    amount: fact.kind === 'renewal' ? 100n : null,
    currency: fact.kind === 'renewal' ? 'usd' : null,
    renewal_id: null,
    ends_on: fact.kind === 'renewal' ? new Date(fact.occurred_at.getTime() + 30 * 86_400_000) : null,
    recorded_at: fact.occurred_at,
    ...fact,
  }))
}
