import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { ServiceError } from '@licensing/grpc/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { markProvisioned, writeSession } from '../checkout-sessions/session-queries.ts'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'
import type { BillingDeps } from '../dependencies.ts'
import { writeLicence } from '../payments/payment-queries.ts'

// What passes by itself is tried again; what does not needs the vendor.
const passing: ReadonlySet<ErrorCode> = new Set(['unavailable', 'internal', 'rate_limited'])

/** Why licensing would not provision, where only the vendor can mend it; rethrows what passes by itself. */
export function lastingRefusal(error: unknown): ServiceError {
  if (error instanceof ServiceError && !passing.has(error.code)) return error
  throw error
}

/** One licence for a paid session, whoever asks and how often: licensing keeps which payment it was for. */
export async function provision(
  { licensing }: BillingDeps,
  tx: Transaction,
  session: SessionRow,
  expiresOn: Date | undefined,
  options: { replay?: boolean } = {},
): Promise<void> {
  const event = { accountId: session.account_id, applicationId: session.application_id }
  const amount = session.paid_amount ?? session.amount
  const currency = session.paid_currency || session.currency
  try {
    const { licence } = await licensing.provisionLicence({
      ...event,
      paymentRef: session.id,
      planId: session.plan_id,
      externalRef: session.external_ref,
      ...(expiresOn && { expiresOn: timestampFromDate(expiresOn) }),
    })
    const licenceId = licence!.id
    await markProvisioned(tx, session.id, licenceId)
    await writeLicence(tx, session.id, licenceId)
    const value = { licenceId, amount, currency }
    await append(tx, { ...event, payload: { case: 'paymentSucceeded', value } })
  } catch (error) {
    const { code } = lastingRefusal(error)
    if (options.replay) throw error
    await writeSession(tx, session.id, { status: 'provision_failed', failure_reason: code })
    const value = { sessionId: session.id, planId: session.plan_id, amount, currency, reason: code }
    await append(tx, { ...event, payload: { case: 'paymentProvisionFailed', value } })
  }
}
