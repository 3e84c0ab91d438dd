import { expect, test } from 'vitest'
import { factsOf, givenSale } from '../../test/sales.ts'
import { inOrder, paymentsOfSale, readSaleFacts } from './sale-facts.ts'

const sale = givenSale()
const day = 86_400_000
const on = (days: number) => new Date(sale.occurred_at.getTime() + days * day)

const read = (...reported: Parameters<typeof factsOf>) =>
  readSaleFacts(sale, factsOf(...reported)).map(({ fact }) => fact)

test('facts are ordered by their time, those of one time by kind, then by id; none is before the sale', () => {
  const all = factsOf(
    { kind: 'cancellation', occurred_at: on(3) },
    { kind: 'refund', fact_id: 'b', occurred_at: on(3) },
    { kind: 'chargeback', fact_id: 'a', occurred_at: on(3) },
    { kind: 'failure', fact_id: 'f', occurred_at: on(3) },
    { kind: 'renewal', fact_id: 'z', occurred_at: on(3) },
    { kind: 'failure', fact_id: 'early', occurred_at: on(-1) },
    { kind: 'renewal', fact_id: 'sooner', occurred_at: on(0) },
    { kind: 'failure', fact_id: 'earlier', occurred_at: on(-2) },
  )
  const order = ['sooner', 'earlier', 'early', 'z', 'f', 'a', 'b', '']
  for (const facts of [all, all.toReversed()]) {
    expect(inOrder(facts, sale).map((fact) => fact.fact_id)).toEqual(order)
  }
})

test('a refund counts at most as much as earlier refunds left, a chargeback at most the payment', () => {
  const facts = read(
    { kind: 'refund', fact_id: 'late', amount: 50n, occurred_at: on(4) },
    { kind: 'refund', fact_id: 'first', amount: 80n, occurred_at: on(1) },
    { kind: 'chargeback', fact_id: 'c', amount: 500n, occurred_at: on(2) },
    { kind: 'refund', fact_id: 'last', amount: 1n, occurred_at: on(5) },
  )
  const amounts = facts.flatMap((fact) =>
    fact.kind === 'refund' || fact.kind === 'dispute' ? [fact.amount] : [],
  )
  expect(amounts).toEqual([80, 100, 20, 0])
})

test('a refund is of the renewal that it names, also if the sale and the renewal have the same id', () => {
  const same = {
    kind: 'renewal',
    fact_id: sale.sale_id,
    amount: 70n,
    currency: 'jpy',
    occurred_at: on(9),
  } as const
  const of = { kind: 'refund', amount: 60n, occurred_at: on(10) } as const
  const facts = read(same, { ...of, fact_id: '1' }, { ...of, fact_id: '2', renewal_id: sale.sale_id })
  expect(facts.flatMap((fact) => (fact.kind === 'refund' ? [[fact.currency, fact.paymentRef]] : []))).toEqual(
    [
      ['usd', sale.id],
      ['jpy', `${sale.id}:${sale.sale_id}`],
    ],
  )
  const left = paymentsOfSale(sale, factsOf(same, { ...of, fact_id: '1' }))
  expect([left.get(null)!.left, left.get(sale.sale_id)!.left]).toEqual([40n, 70n])
})

test('a refund of a renewal that is not known is left out', () => {
  const facts = read({ kind: 'refund', fact_id: 'r', amount: 1n, renewal_id: 'unknown', occurred_at: on(1) })
  expect(facts.map(({ kind }) => kind)).toEqual(['checkout'])
})
