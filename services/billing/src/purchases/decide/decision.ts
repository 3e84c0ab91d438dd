import type { PurchaseEffectKind } from '@licensing/proto/closed-sets'
import type { Metadata } from '@licensing/proto/metadata'
import type { VendorAlert } from '../../alerts/alert-vendor.ts'
import type { SessionRow } from '../../checkout-sessions/session-queries.ts'
import type { NewFeeRefund } from '../../fees/fee-refund-queries.ts'
import type { NewFeeEntry } from '../../fees/ledger-queries.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { RefundRow } from '../../refunds/refund-queries.ts'
import type { Checkout, Invoice, RecordedFact } from './merge-facts.ts'
import { maxUnanswered, timing } from '../../timing.ts'

/** All known facts of one checkout session, and all earlier decisions about it. */
export interface History {
  session: SessionRow
  facts: RecordedFact[]
  payments: PaymentRow[]
  refunds: RefundRow[]
  ledger: LedgerEntry[]
  /** Keys of the effects that were decided before, in that order. */
  effects: ReadonlySet<string>
  questions: Question[]
  /** Prices that plans of the application are mapped to, by the processor's id. */
  prices: ReadonlyMap<string, MappedPrice>
  /** The time of the first charge, as it was last sent to licensing. */
  orderedAt: Date | undefined
}

export interface MappedPrice {
  plan_id: string
  updates_months: number | null
}

export type LedgerEntry = Omit<NewFeeEntry, 'account_id' | 'application_id'>

export const questionKinds = ['charge', 'invoice', 'subscription', 'records', 'events'] as const

export type QuestionKind = (typeof questionKinds)[number]

export interface Question {
  kind: QuestionKind
  ref: string
  attempts: number
  /** Whether the processor has such an object; null without an answer. */
  found: boolean | null
}

/** New decisions that follow from a history. */
export interface Decision {
  session: Partial<SessionRow>
  /** New and changed payments. */
  payments: PaymentRow[]
  refunds: RefundRow[]
  entries: LedgerEntry[]
  /** Fees to refund at the processor. */
  feeRefunds: NewFeeRefund[]
  /** Payments whose pending fee refunds are no longer owed. */
  canceledFeeRefunds: string[]
  effects: NewEffect[]
  alerts: VendorAlert[]
  questions: { kind: QuestionKind; ref: string; next_at: Date }[]
  /** When to decide again although nothing has happened. */
  next: Date | undefined
}

/** An effect of a purchase, as it is sent to licensing. */
export interface Effect {
  /** Null if no licence changes and only the vendor is notified. */
  kind: PurchaseEffectKind | null
  /** Business key of the invoice, refund, dispute or subscription. */
  cause: string
  at: Date
  ordered_at: Date
  plan_id: string | null
  external_ref: string | null
  ends_at: Date | null
  /** Null if the payment does not change the end of updates. */
  updates_until: Date | null
  metadata: Metadata | null
  /** Whether `paid` begins a subscription. */
  renews: boolean
  refund_id: string | null
}

/** `refused`: the effect, and all later effects of its purchase, wait for a replay. */
export const effectStates = ['waiting', 'refused', 'done'] as const

export type EffectState = (typeof effectStates)[number]

export interface NewEffect extends Effect {
  effect_key: string
  state: Exclude<EffectState, 'done'>
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

export interface Rules {
  /** How many consecutive failed payments of a subscription suspend its licence. */
  failuresBeforeSuspend: number
  /** How long after the end of its period a subscription that is not canceled remains valid. */
  graceMs: number
}

/** A paid checkout, and the unfinished decision about it. */
export interface Subject {
  history: History
  checkout: Checkout
  paidAt: number
  invoices: Invoice[]
  now: Date
  rules: Rules
  decision: Decision
}

/** Whether this time has passed. If not, the purchase is decided again at that time. */
export function hasPassed({ decision, now }: Subject, atMs: number): boolean {
  if (now.getTime() >= atMs) return true
  if (decision.next === undefined || atMs < decision.next.getTime()) decision.next = new Date(atMs)
  return false
}

/** Whether the rows differ in any of these columns. */
export function differ<Row extends object>(one: Row, other: Row, names: readonly (keyof Row)[]): boolean {
  return names.some((name) => one[name]?.valueOf() !== other[name]?.valueOf())
}

/**
 * Asks the processor, unless the question was asked before. It waits for `eventBeforeQuestion`, because an event may answer it.
 *
 * @returns whether the answer is still expected, and whether the processor has such an object
 */
export function ask(
  { history, decision, now }: Subject,
  kind: QuestionKind,
  ref: string,
  sinceMs: number,
): { waiting: boolean; found: boolean } {
  const asked = history.questions.find((each) => each.kind === kind && each.ref === ref)
  if (asked) {
    const waiting = asked.found === null && asked.attempts < maxUnanswered
    return { waiting, found: asked.found === true }
  }
  const next_at = new Date(Math.max(now.getTime(), sinceMs + timing.eventBeforeQuestion))
  if (!decision.questions.some((each) => each.kind === kind && each.ref === ref)) {
    decision.questions.push({ kind, ref, next_at })
  }
  return { waiting: true, found: false }
}
