import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { invalid } from '@licensing/grpc/errors'
import type { LicenceSchema, RenewLicenceRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { settle } from '../licences/settle-licence.ts'
import { byPayment, once } from './draw-consequence.ts'

/** A later invoice of the same subscription is paid: the end moves, and never back, since invoices come in any order. */
export async function renewLicence(
  deps: LicensingDeps,
  request: RenewLicenceRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  if (!request.expiresOn) throw invalid('/expires_on', 'is needed')
  const paidUntil = timestampDate(request.expiresOn)
  return once(deps, 'renewed', request, (tx, licence, plan) => {
    const end = licence.expires_on
    const endMoves = end !== null && end < paidUntil
    const expiresOn = endMoves ? paidUntil : end
    const endAhead = expiresOn === null || expiresOn > new Date()
    return settle(tx, licence, {
      causes: ['renewed', 'paymentsMadeGood'],
      circumstances: { plan, endMoves, endAhead },
      by: byPayment(request),
      given: { expiresOn },
    })
  })
}
