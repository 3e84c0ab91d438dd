import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import { ServiceError } from '@licensing/grpc/errors'
import type { SuspensionReason } from '@licensing/proto/closed-sets'
import { writeSession } from '../checkout-sessions/session-queries.ts'
import type { BillingDeps } from '../dependencies.ts'
import { markDispute } from '../facts/dispute-facts.ts'
import { writePayment } from '../payments/payment-queries.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import { putRefund } from '../refunds/refund-queries.ts'
import type { NewRefund } from '../refunds/refund-queries.ts'
import { provision } from './provision.ts'
import type { LicenceStep } from './step.ts'
import type { Story } from './story.ts'
import { isSuperseded } from './superseded.ts'

/**
 * Asks licensing first, which does each thing once for its cause, then records here that it is done: a crash in between
 * asks again and changes nothing.
 */
export async function applyToLicence(
  deps: BillingDeps,
  tx: Transaction,
  story: Story,
  step: LicenceStep,
): Promise<void> {
  const { session } = story
  if (step.do === 'provision') return provision(deps, tx, session, step.expiresOn)
  const licence = { accountId: session.account_id, licenceId: session.licence_id! }
  switch (step.do) {
    case 'renew':
      await renew(deps, licence, step.payment)
      return writePayment(tx, step.payment.id, { renewed: true })
    case 'suspend_for_failures':
      if (!(await isSuperseded(tx, session))) {
        const reason: SuspensionReason = 'payment_failed'
        await ifThere(deps.licensing.suspendForPayment({ ...licence, cause: step.streak, reason }))
      }
      return writeSession(tx, session.id, { suspended_streak: step.streak })
    case 'suspend_for_inquiry': {
      const cause = step.dispute.dispute_ref
      const reason: SuspensionReason = 'dispute_inquiry'
      await ifThere(deps.licensing.suspendForPayment({ ...licence, cause, reason }))
      return markDispute(tx, session.merchant, step.dispute.dispute_ref, { suspended: true })
    }
    case 'resume_from_inquiry':
      await ifThere(deps.licensing.resumeFromInquiry({ ...licence, cause: step.dispute.dispute_ref }))
      return markDispute(tx, session.merchant, step.dispute.dispute_ref, { resumed: true })
    case 'process_refund':
      return processRefund(deps, tx, story, step)
    case 'process_chargeback': {
      const { payment, dispute } = step
      await ifThere(deps.licensing.revokeForRefund({ ...licence, cause: dispute.dispute_ref }))
      const { dispute_ref: ref, amount, currency, status, opened_at: occurredAt } = dispute
      return tellRefund(tx, story, payment, {
        ref,
        amount,
        currency,
        status,
        lane: 'chargeback',
        occurred_at: occurredAt,
      })
    }
    case 'end_subscription':
      if (!(await isSuperseded(tx, session))) {
        await ifThere(
          deps.licensing.expireLicence({ ...licence, cause: session.subscription_ref ?? session.id }),
        )
      }
      return writeSession(tx, session.id, { subscription_ended: true })
  }
}

type Named = { accountId: string; licenceId: string }

async function renew({ licensing }: BillingDeps, licence: Named, payment: PaymentRow): Promise<void> {
  if (!payment.period_end) return
  const cause = payment.invoice_ref ?? payment.id
  await ifThere(
    licensing.renewLicence({ ...licence, cause, expiresOn: timestampFromDate(payment.period_end) }),
  )
}

async function processRefund(
  { licensing }: BillingDeps,
  tx: Transaction,
  story: Story,
  { payment, refund, lane, oldCycle }: Extract<LicenceStep, { do: 'process_refund' }>,
): Promise<void> {
  const { session } = story
  const request = {
    accountId: session.account_id,
    licenceId: session.licence_id!,
    cause: refund.refund_ref,
  }
  if (!oldCycle) {
    await ifThere(
      lane === 'full_refund' ? licensing.revokeForRefund(request) : licensing.downgradeForRefund(request),
    )
  }
  const { refund_ref: ref, amount, currency, status, created_at: occurredAt } = refund
  return tellRefund(tx, story, payment, { ref, amount, currency, status, lane, occurred_at: occurredAt })
}

/** The refund's own event; the licence's comes from licensing. */
async function tellRefund(
  tx: Transaction,
  { session }: Story,
  payment: PaymentRow,
  refund: Pick<NewRefund, 'ref' | 'amount' | 'currency' | 'status' | 'lane' | 'occurred_at'>,
): Promise<void> {
  await putRefund(tx, {
    id: newId('rfd'),
    account_id: payment.account_id,
    application_id: payment.application_id,
    payment_id: payment.id,
    merchant: session.merchant,
    processed: true,
    ...refund,
  })
  await append(tx, {
    accountId: session.account_id,
    applicationId: session.application_id,
    payload: {
      case: 'refundProcessed',
      value: {
        licenceId: session.licence_id!,
        chargeRef: payment.charge_ref ?? payment.payment_ref ?? payment.id,
        amount: refund.amount,
        lane: refund.lane,
      },
    },
  })
}

/** A licence that is gone can have no consequences: that must not hold up the rest of the story. */
async function ifThere(call: Promise<unknown>): Promise<void> {
  try {
    await call
  } catch (error) {
    if (!(error instanceof ServiceError && error.code === 'not_found')) throw error
  }
}
