import type { AlertKind, FeeKind } from '@licensing/proto/closed-sets'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import type { RefundRow } from '../refunds/refund-queries.ts'
import type { QuestionKind } from './history.ts'

/** What happened to a purchase, as licensing is sent it; null: nothing that changes a licence. */
export type EffectKind =
  | 'landed'
  | 'renewed'
  | 'payments_failed'
  | 'inquiry_opened'
  | 'inquiry_closed'
  | 'partly_refunded'
  | 'given_back'
  | 'cancelled'
  | 'reordered'

/** `refused`: it waits for a replay, as all later ones of its purchase do. */
export const effectStates = ['waiting', 'refused', 'done'] as const

export type EffectState = (typeof effectStates)[number]

export interface NewEffect {
  effect_key: string
  kind: EffectKind | null
  /** Business key of the invoice, refund, dispute or subscription. */
  cause: string
  at: Date
  ordered_at: Date
  plan_id: string | null
  external_ref: string | null
  ends_at: Date | null
  charged_back: boolean
  refund_id: string | null
  state: Exclude<EffectState, 'done'>
}

export interface NewEntry {
  id: string
  payment_id: string
  kind: FeeKind
  cause: string
  amount_minor: bigint
  currency: string
  period: string
  occurred_at: Date
}

export interface Alert {
  kind: AlertKind
  subject: string
  text: string
}

/** What follows from a history and has not been decided before. */
export interface Decision {
  session: Partial<SessionRow>
  /** New ones and changed ones. */
  payments: PaymentRow[]
  refunds: RefundRow[]
  entries: NewEntry[]
  /** Fees to give back at the processor: ledger entries. */
  feeRefunds: { fee_entry_id: string; payment_id: string; amount_minor: bigint }[]
  /** Payments whose pending fee refunds are no longer owed. */
  canceledFeeRefunds: string[]
  effects: NewEffect[]
  alerts: Alert[]
  questions: { kind: QuestionKind; ref: string; at: Date }[]
  /** When to look again although nothing has happened. */
  next: Date | undefined
}

export function nothingDecided(): Decision {
  return {
    session: {},
    payments: [],
    refunds: [],
    entries: [],
    feeRefunds: [],
    canceledFeeRefunds: [],
    effects: [],
    alerts: [],
    questions: [],
    next: undefined,
  }
}
