import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { LicenceSchema, SuspendForPaymentRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { drawConsequence } from './draw-consequence.ts'

export async function suspendForPayment(
  deps: LicensingDependencies,
  request: SuspendForPaymentRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  switch (request.reason) {
    case 'payment_failed':
      return drawConsequence(deps, { kind: 'paymentsFailed' }, request)
    case 'dispute_inquiry':
      return drawConsequence(deps, { kind: 'inquiryOpened' }, request)
    default:
      throw invalid('/reason', 'must be payment_failed or dispute_inquiry')
  }
}
