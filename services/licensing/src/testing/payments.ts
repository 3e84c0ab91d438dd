import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence, ProvisionLicenceResponse } from '@licensing/proto/licensing'
import type { Harness } from './harness.ts'
import { causeOn } from './makers.ts'

let made = 0
export const unique = (name: string) => `${name}-${(made += 1)}`
export const inDays = (days: number) => new Date(Date.now() + days * 86_400_000)

interface Payment {
  planId: string
  externalRef: string
  paymentRef?: string
  expiresOn?: Date
}

export function provision(harness: Harness, payment: Payment): Promise<ProvisionLicenceResponse> {
  return harness.licensing.provisionLicence({
    accountId: harness.accountId,
    applicationId: harness.applicationId,
    planId: payment.planId,
    externalRef: payment.externalRef,
    paymentRef: payment.paymentRef ?? unique('cs'),
    ...(payment.expiresOn && { expiresOn: timestampFromDate(payment.expiresOn) }),
  })
}

/** A licence that a new customer has paid for. */
export async function bought(harness: Harness, planId: string, expiresOn?: Date): Promise<Licence> {
  const payment = { planId, externalRef: unique('buyer'), ...(expiresOn && { expiresOn }) }
  return (await provision(harness, payment)).licence!
}

export function renew(
  harness: Harness,
  licence: { id: string },
  expiresOn: Date,
  cause = unique('in'),
): Promise<Licence> {
  return harness.licensing.renewLicence({
    ...causeOn(harness, licence, cause),
    expiresOn: timestampFromDate(expiresOn),
  })
}

export function suspendFor(
  harness: Harness,
  licence: { id: string },
  reason: string,
  cause = unique('sub'),
): Promise<Licence> {
  return harness.licensing.suspendForPayment({ ...causeOn(harness, licence, cause), reason })
}
