import type { SessionRow } from '../../checkout-sessions/session-queries.ts'
import type { VendorAlert } from '../../alerts/alert-vendor.ts'
import type { NewEffect } from '../../effects/effect.ts'
import type { NewFeeRefund } from '../../fees/fee-refund-queries.ts'
import type { NewFeeEntry } from '../../fees/ledger-queries.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import type { QuestionKind } from '../../queues/queue-queries.ts'
import type { RefundRow } from '../../refunds/refund-queries.ts'
import { maxUnanswered, timing } from '../../timing.ts'
import type { Checkout, Invoice, RecordedFact } from './merge-facts.ts'

/** A purchase as it was made: a checkout session, or a sale of another shop in the form of a session. */
export interface SoldSession extends SessionRow {
  /** The shop's id of the sale; null for a checkout session. */
  sale_id: string | null
}

/** All known facts of one purchase, and all earlier decisions about it. */
export interface History {
  session: SoldSession
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

export interface Question {
  kind: QuestionKind
  ref: string
  attempts: number
  /** Whether the processor has such an object; null without an answer. */
  found: boolean | null
}

export interface Rules {
  /** How many consecutive failed payments of a subscription suspend its licence. */
  failuresBeforeSuspend: number
  /** How long after the end of its period a subscription that is not cancelled remains valid. */
  graceMs: number
  /** The tick of the clock by which the facts are dated, in milliseconds. */
  tickMs: number
  /** How long facts of earlier times may still arrive by themselves, in milliseconds. */
  othersArriveMs: number
  /** Whether questions can be answered. If not, the facts that have arrived are all that there is. */
  hasAnswers: boolean
}

/** A paid checkout. */
export interface Subject {
  history: History
  checkout: Checkout
  paidAt: number
  invoices: Invoice[]
  now: Date
  rules: Rules
}

/** A value that is decided now, or what it waits for. */
export type Decided<Value> = { now: Value } | Later

export interface Later {
  /** When to decide again although nothing has happened; infinite if only a fact or an answer can change the decision. */
  later: number
  /** The questions that the processor must answer first. */
  questions: NewQuestion[]
}

export interface NewQuestion {
  kind: QuestionKind
  ref: string
  next_at: Date
}

/** The rows of a decision. */
export interface DecidedRows {
  /** New and changed payments. */
  payments: PaymentRow[]
  /** New and changed refunds. */
  refunds: RefundRow[]
  entries: LedgerEntry[]
  /** Fees to refund at the processor. */
  feeRefunds: NewFeeRefund[]
  /** Payments whose pending fee refunds are no longer owed. */
  cancelledFeeRefunds: string[]
  effects: NewEffect[]
  alerts: VendorAlert[]
}

/** The result of one decider. */
export interface Part extends Partial<DecidedRows> {
  waits?: Later[]
}

/** New decisions that follow from a history. */
export interface Decision extends DecidedRows {
  session: Partial<SessionRow>
  questions: NewQuestion[]
  /** When to decide again although nothing has happened. */
  next: Date | undefined
}

/** Combines the parts of a decision. Their order does not matter, except that effects are sent in it. */
export function combine(session: Partial<SessionRow>, parts: Part[]): Decision {
  const { later, questions } = mergeWaits(parts.flatMap((part) => part.waits ?? []))
  return {
    session,
    payments: parts.flatMap((part) => part.payments ?? []),
    refunds: parts.flatMap((part) => part.refunds ?? []),
    entries: parts.flatMap((part) => part.entries ?? []),
    feeRefunds: parts.flatMap((part) => part.feeRefunds ?? []),
    cancelledFeeRefunds: parts.flatMap((part) => part.cancelledFeeRefunds ?? []),
    effects: parts.flatMap((part) => part.effects ?? []),
    alerts: parts.flatMap((part) => part.alerts ?? []),
    questions,
    next: later === Infinity ? undefined : new Date(later),
  }
}

function mergeWaits(waits: Later[]): Later {
  const questions = new Map(
    waits.flatMap((wait) => wait.questions.map((question) => [`${question.kind} ${question.ref}`, question])),
  )
  return { later: Math.min(...waits.map(({ later }) => later)), questions: [...questions.values()] }
}

/** The waits among these. */
export function waitsOf(...decided: Decided<unknown>[]): Later[] {
  return decided.filter((each) => 'later' in each)
}

/** Waits for all of these. */
export function allOf(...decided: Decided<unknown>[]): Decided<true> {
  const waits = waitsOf(...decided)
  return waits.length === 0 ? { now: true } : mergeWaits(waits)
}

/** Waits until one of these is decided. */
export function anyOf(...decided: Decided<unknown>[]): Decided<true> {
  const waits = waitsOf(...decided)
  return waits.length < decided.length ? { now: true } : mergeWaits(waits)
}

/** Waits until this time. */
export function until({ now }: Subject, atMs: number): Decided<true> {
  return now.getTime() >= atMs ? { now: true } : { later: atMs, questions: [] }
}

/**
 * Asks the processor, unless the question was asked before. It waits for `eventBeforeQuestion`, because an event may answer it.
 *
 * @returns whether the processor has such an object; false too if nobody answers
 */
export function ask(
  { history, now, rules }: Subject,
  kind: QuestionKind,
  ref: string,
  sinceMs: number,
): Decided<boolean> {
  if (!rules.hasAnswers) return { now: false }
  const asked = history.questions.find((each) => each.kind === kind && each.ref === ref)
  if (!asked) {
    const next_at = new Date(Math.max(now.getTime(), sinceMs + timing.eventBeforeQuestion))
    return { later: Infinity, questions: [{ kind, ref, next_at }] }
  }
  const isExpected = asked.found === null && asked.attempts < maxUnanswered
  return isExpected ? { later: Infinity, questions: [] } : { now: asked.found === true }
}

/**
 * Waits while other events may arrive, and until billing has read the events that the processor lists and that did not arrive. If
 * the processor does not answer, it waits until `lookAtEvents`.
 *
 * @param ref names the question, which is asked once
 * @param sinceMs when the latest fact was recorded
 * @param waitMs how long other events may arrive by themselves
 */
export function eventsRead(subject: Subject, ref: string, sinceMs: number, waitMs: number): Decided<true> {
  return allOf(
    until(subject, sinceMs + waitMs),
    anyOf(ask(subject, 'events', ref, sinceMs), until(subject, sinceMs + timing.lookAtEvents)),
  )
}

/** Whether the rows differ in any of these columns. Lists are compared as texts. */
export function differ<Row extends object>(one: Row, other: Row, names: readonly (keyof Row)[]): boolean {
  const text = (value: unknown) => (value instanceof Date ? value.getTime() : String(value))
  return names.some((name) => text(one[name]) !== text(other[name]))
}
