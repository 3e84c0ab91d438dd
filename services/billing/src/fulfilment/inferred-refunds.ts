import type { RefundRow } from '../refunds/refund-queries.ts'
import type { Charge, FoldedRefund } from './fold.ts'
import { ofKind } from './fold.ts'
import type { Subject } from './subject.ts'
import { timing } from './timing.ts'

/** Rows of refunds that were inferred from the charge's total are named after the charge. */
export function isInferred(row: Pick<RefundRow, 'ref'>): boolean {
  return row.ref.includes(':')
}

/**
 * Adds what a charge's totals show to the refunds that were reported. A reported one that is part of what had been
 * inferred before counts for nothing itself.
 *
 * @param silent the processor has no list of refunds to compare with, or does not give it
 */
export function inferredRefunds(
  { history, now }: Subject,
  charge: Charge,
  reported: FoldedRefund[],
  rows: RefundRow[],
  silent: boolean,
): { refunds: FoldedRefund[]; waitsUntil: number | undefined } {
  const inferred = rows.filter(isInferred)
  const standing = inferred.filter((row) => !reported.some((refund) => isTwin(row, refund, rows)))
  const counted = reported.filter((refund) => !isCovered(refund, reported, rows, standing))
  const known = [...counted, ...standing.map((row) => fromRow(row))]
  const missing = charge.refunded - known.reduce((sum, refund) => sum + refund.amount, 0)
  if (missing <= 0) return { refunds: known, waitsUntil: undefined }
  const totals = ofKind(history.facts, 'charge')
    .filter((fact) => fact.chargeRef === charge.ref && fact.refunded > 0)
    .sort((a, b) => a.refunded - b.refunded || a.reportedAt - b.reportedAt)
  const heard = Math.max(...totals.map((fact) => fact.recordedMs))
  const waitsUntil = heard + (silent ? timing.othersArrive : timing.missingRefund)
  if (now.getTime() < waitsUntil) return { refunds: known, waitsUntil }
  let left = missing
  for (const { refunded, reportedAt, recordedMs } of totals) {
    const until = known.filter((refund) => refund.createdAt <= reportedAt)
    const amount = Math.min(left, refunded - until.reduce((sum, refund) => sum + refund.amount, 0))
    if (amount <= 0) continue
    left -= amount
    known.push({
      ref: `${charge.ref}:${refunded}`,
      amount,
      currency: charge.currency,
      createdAt: reportedAt,
      status: 'succeeded',
      succeededAt: reportedAt,
      failedAt: undefined,
      recordedAt: recordedMs,
      explained: true,
      derived: true,
    })
  }
  return { refunds: known, waitsUntil: undefined }
}

/** The same refund, inferred and reported. */
function isTwin(row: RefundRow, refund: FoldedRefund, rows: RefundRow[]): boolean {
  return row.amount === BigInt(refund.amount) && !rows.some((other) => other.ref === refund.ref)
}

function isCovered(
  refund: FoldedRefund,
  reported: FoldedRefund[],
  rows: RefundRow[],
  standing: RefundRow[],
): boolean {
  if (standing.length === 0 || rows.some((row) => row.ref === refund.ref || isTwin(row, refund, rows)))
    return false
  const unlisted = reported.filter((other) => !rows.some((row) => row.ref === other.ref))
  const before = unlisted.slice(0, unlisted.indexOf(refund) + 1).reduce((sum, other) => sum + other.amount, 0)
  return before <= standing.reduce((sum, row) => sum + Number(row.amount), 0)
}

function fromRow(row: RefundRow): FoldedRefund {
  const at = row.occurred_at.getTime()
  return {
    ref: row.ref,
    amount: Number(row.amount),
    currency: row.currency,
    createdAt: at,
    status: 'succeeded',
    succeededAt: at,
    failedAt: undefined,
    recordedAt: 0,
    explained: true,
    derived: true,
  }
}
