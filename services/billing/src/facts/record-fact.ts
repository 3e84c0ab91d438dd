import type { Database, Transaction } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import type { Fact } from '../processors/facts.ts'
import { recordCharge } from './charge-facts.ts'
import { recordCheckout } from './checkout-facts.ts'
import { recordDispute } from './dispute-facts.ts'
import { recordRefund } from './refund-facts.ts'
import type { Subject } from './subjects.ts'
import { recordFailedInvoice, recordPaidInvoice, recordSubscriptionEnd } from './subscription-facts.ts'

/**
 * Stores what the processor tells, merged with what it told before so that neither order nor repetition matters.
 * Committed before anybody looks whom it concerns: whoever records the missing link later finds it.
 *
 * @param ripeAt when to draw consequences from it
 */
export async function recordFact(
  sql: Database,
  merchant: string,
  fact: Exclude<Fact, { kind: 'disconnected' }>,
  ripeAt: Date,
): Promise<Subject> {
  return transaction(sql, (tx) => record(tx, merchant, fact, ripeAt))
}

function record(
  tx: Transaction,
  merchant: string,
  fact: Exclude<Fact, { kind: 'disconnected' }>,
  ripeAt: Date,
): Promise<Subject> {
  switch (fact.kind) {
    case 'checkout':
      return recordCheckout(tx, merchant, fact)
    case 'charge':
      return recordCharge(tx, merchant, fact)
    case 'refund':
      return recordRefund(tx, merchant, fact, ripeAt)
    case 'dispute':
      return recordDispute(tx, merchant, fact, ripeAt)
    case 'invoice_paid':
      return recordPaidInvoice(tx, merchant, fact)
    case 'invoice_failed':
      return recordFailedInvoice(tx, merchant, fact)
    case 'subscription_ended':
      return recordSubscriptionEnd(tx, merchant, fact, ripeAt)
  }
}
