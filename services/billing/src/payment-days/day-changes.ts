import type { Sql } from '@licensing/database/connect'
import { insertRows } from '@licensing/database/row-queries'
import type { RefundKind } from '@licensing/proto/closed-sets'

/** The rows of a purchase that count. */
export interface CountedRows {
  payments: readonly {
    id: string
    amount: bigint
    currency: string
    charged_at: Date | null
    paid_at: Date
  }[]
  refunds: readonly {
    kind: RefundKind
    status: string
    amount: bigint
    currency: string
    occurred_at: Date
  }[]
  fees: readonly { payment_id: string; amount_minor: bigint; currency: string }[]
}

const sums = ['count', 'gross_minor', 'refunded_minor', 'fee_minor'] as const
type Sums = Record<(typeof sums)[number], bigint>
type DayChange = { day: string; currency: string } & Sums

const none: Sums = { count: 0n, gross_minor: 0n, refunded_minor: 0n, fee_minor: 0n }
const utcDay = (time: Date) => time.toISOString().slice(0, 10)

function moneyOf({ payments, refunds, fees }: CountedRows): DayChange[] {
  const days = new Map(payments.map((payment) => [payment.id, utcDay(payment.charged_at ?? payment.paid_at)]))
  return [
    ...payments.map(({ id, currency, amount }) => ({
      ...none,
      day: days.get(id)!,
      currency,
      count: 1n,
      gross_minor: amount,
    })),
    // A chargeback counts from its opening, however it ends.
    ...refunds
      .filter(({ kind, status }) => kind === 'chargeback' || status === 'succeeded')
      .map(({ occurred_at: at, currency, amount }) => ({
        ...none,
        day: utcDay(at),
        currency,
        refunded_minor: amount,
      })),
    ...fees.map(({ payment_id: id, currency, amount_minor: amount }) => ({
      ...none,
      day: days.get(id)!,
      currency,
      fee_minor: amount,
    })),
  ]
}

/** By how much the days of a purchase change with its rows. Its fees count on the days of their payments, and move with them. */
export function dayChanges(before: CountedRows, after: CountedRows): DayChange[] {
  const changes = new Map<string, DayChange>()
  for (const [rows, sign] of [[before, -1n] as const, [after, 1n] as const]) {
    for (const money of moneyOf(rows)) {
      const { day, currency } = money
      const change = changes.get(day + currency) ?? { ...none, day, currency }
      for (const sum of sums) change[sum] += sign * money[sum]
      changes.set(day + currency, change)
    }
  }
  return [...changes.values()].filter((change) => sums.some((sum) => change[sum] !== 0n))
}

/** Notes changes in the transaction that makes them. `addUpChanges` adds them to their days. */
export async function noteDayChanges(
  sql: Sql,
  changes: (DayChange & { account_id: string; application_id: string })[],
): Promise<void> {
  await insertRows(sql, 'payment_day_changes', changes)
}
