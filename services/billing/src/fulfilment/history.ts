import type { FeeKind } from '@licensing/proto/closed-sets'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import type { Fact } from '../processors/facts.ts'
import type { RefundRow } from '../refunds/refund-queries.ts'

/** All that is known of one checkout and what came of it, and all that has been decided about it so far. */
export interface History {
  session: SessionRow
  facts: RecordedFact[]
  payments: PaymentRow[]
  refunds: RefundRow[]
  ledger: LedgerEntry[]
  /** Keys of the effects that have been decided. */
  effects: ReadonlySet<string>
  questions: Question[]
  /** Plans of the application, by the price that they are mapped to. */
  planOfPrice: ReadonlyMap<string, string>
  /** The time of the first charge that licensing was last given. */
  orderedAt: Date | undefined
}

export interface RecordedFact {
  fact: Fact
  recordedAt: Date
}

export interface LedgerEntry {
  id: string
  payment_id: string
  kind: FeeKind
  cause: string
  period: string
  currency: string
  amount_minor: bigint
}

export const questionKinds = ['charge', 'invoice', 'subscription', 'records'] as const

export type QuestionKind = (typeof questionKinds)[number]

export interface Question {
  kind: QuestionKind
  ref: string
  attempts: number
  /** Undefined while it is not answered. */
  found: boolean | undefined
}
