import type { PaymentRow } from '../payments/payment-queries.ts'
import type { Decision } from './decision.ts'
import type { Charge, Checkout, FoldedDispute, FoldedRefund, Invoice } from './fold.ts'
import type { History, Question, QuestionKind } from './history.ts'
import { mostSilences, timing } from './timing.ts'

export interface Rules {
  /** Failed payments of a subscription in a row that suspend its licence. */
  failuresBeforeSuspend: number
  /** How long after its period's end a subscription that is not cancelled still stands. */
  graceMs: number
}

/** A paid checkout that is being decided about, and what has been decided so far. */
export interface Subject {
  history: History
  checkout: Checkout
  paidAt: number
  invoices: Invoice[]
  now: Date
  rules: Rules
  decision: Decision
}

export interface PaymentView {
  payment: PaymentRow
  /** Null for what the checkout itself paid. */
  invoice: Invoice | null
  charge: Charge | undefined
}

export interface ReversedPayment extends PaymentView {
  /** What was charged: a tax or a discount makes it another amount than the price. */
  total: number
  /** Those that count, in the order in which they came to be, each with its row. */
  refunds: (FoldedRefund & { id: string })[]
  disputes: (FoldedDispute & { id: string | undefined })[]
  /** All that is known of its refunds and disputes takes effect together, in its order, or waits. */
  settled: boolean
}

/** Looks again at this time, although nothing happens. */
export function lookAgain({ decision, now }: Subject, atMs: number): void {
  const at = Math.max(atMs, now.getTime() + 1)
  if (decision.next === undefined || at < decision.next.getTime()) decision.next = new Date(at)
}

/**
 * Asks the processor, once an event has had the time to say it.
 *
 * @returns whether its answer is still waited for
 */
export function ask(
  { history, decision, now }: Subject,
  kind: QuestionKind,
  ref: string,
  sinceMs: number,
): { waiting: boolean; question: Question | undefined } {
  const question = history.questions.find((each) => each.kind === kind && each.ref === ref)
  if (question) return { waiting: !isSilent(question), question }
  const at = new Date(Math.max(now.getTime(), sinceMs + timing.eventBeforeQuestion))
  decision.questions.push({ kind, ref, at })
  return { waiting: true, question: undefined }
}

/** It was answered, or will not be soon. */
function isSilent(question: Question): boolean {
  return question.found !== undefined || question.attempts >= mostSilences
}
