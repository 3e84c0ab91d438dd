import type { MessageInitShape } from '@bufbuild/protobuf'
import { invalid } from '@licensing/grpc/errors'
import type { LicenceSchema, SuspendForPaymentRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { drawConsequence } from './draw-consequence.ts'

export async function suspendForPayment(
  deps: LicensingDeps,
  request: SuspendForPaymentRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  switch (request.reason) {
    case 'payment_failed':
      return drawConsequence(deps, 'paymentsFailed', request)
    case 'dispute_inquiry':
      return drawConsequence(deps, 'inquiryOpened', request)
    default:
      throw invalid('/reason', 'must be payment_failed or dispute_inquiry')
  }
}
