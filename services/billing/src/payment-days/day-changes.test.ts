import { expect, test } from 'vitest'
import { dayChanges } from './day-changes.ts'
import type { CountedRows } from './day-changes.ts'

const nothing: CountedRows = { payments: [], refunds: [], fees: [] }

const payment = (id: string, at: string, amount = 4900n, currency = 'eur') => ({
  id,
  amount,
  currency,
  charged_at: null,
  paid_at: new Date(at),
})

const refund = (at: string, amount: bigint, { kind = 'full_refund', status = 'succeeded' } = {}) => ({
  kind: kind as 'full_refund' | 'partial_refund' | 'chargeback',
  status,
  amount,
  currency: 'eur',
  occurred_at: new Date(at),
})

const fee = (payment_id: string, amount_minor: bigint) => ({ payment_id, amount_minor, currency: 'eur' })

/** Changes in short: count, gross, refunded, fee. */
const changes = (before: CountedRows, after: CountedRows) =>
  dayChanges(before, after)
    .map(
      (row) =>
        `${row.day} ${row.currency} ${row.count} ${row.gross_minor} ${row.refunded_minor} ${row.fee_minor}`,
    )
    .toSorted()

test('payments and refunds count on their own UTC day, by currency; fees, net of credits, count on the day of the payment', () => {
  const after = {
    payments: [
      payment('late', '2026-03-01T23:59:59.999Z'),
      payment('early', '2026-03-02T00:00:00.000Z', 1000n),
      payment('usd', '2026-03-02T10:00:00.000Z', 700n, 'usd'),
    ],
    refunds: [
      refund('2026-03-05T08:00:00Z', 900n, { kind: 'partial_refund' }),
      refund('2026-03-05T09:00:00Z', 4000n),
      refund('2026-03-06T09:00:00Z', 1000n, { kind: 'chargeback', status: 'won' }),
    ],
    fees: [fee('late', 49n), fee('early', 10n), fee('late', -49n)],
  }
  expect(changes(nothing, after)).toEqual([
    '2026-03-01 eur 1 4900 0 0',
    '2026-03-02 eur 1 1000 0 10',
    '2026-03-02 usd 1 700 0 0',
    '2026-03-05 eur 0 0 4900 0',
    '2026-03-06 eur 0 0 1000 0',
  ])
  expect(changes(after, after)).toEqual([])
})

test('a refund counts while it is succeeded', () => {
  const of = (status: string) => ({
    ...nothing,
    refunds: [refund('2026-03-02T12:00:00Z', 4900n, { status })],
  })
  expect(changes(nothing, of('pending'))).toEqual([])
  expect(changes(of('pending'), of('succeeded'))).toEqual(['2026-03-02 eur 0 0 4900 0'])
  expect(changes(of('succeeded'), of('failed'))).toEqual(['2026-03-02 eur 0 0 -4900 0'])
})

test('a payment whose time becomes known later moves to that day together with its fees', () => {
  const paid = payment('a', '2026-03-02T00:00:01Z')
  const fees = [fee('a', 49n)]
  const charged = { ...paid, charged_at: new Date('2026-03-01T23:59:58Z') }
  expect(changes({ ...nothing, payments: [paid], fees }, { ...nothing, payments: [charged], fees })).toEqual([
    '2026-03-01 eur 1 4900 0 49',
    '2026-03-02 eur -1 -4900 0 -49',
  ])
})
