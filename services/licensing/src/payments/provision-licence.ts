import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { isId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import type { ProvisionLicenceRequest, ProvisionLicenceResponseSchema } from '@licensing/proto/licensing'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { LicensingDependencies } from '../dependencies.ts'
import { licenceMessage } from '../licences/licence-row.ts'
import { planUnknown } from '../plans/ask-catalog.ts'
import { applyAll } from '../purchases/apply-purchase-effects.ts'

/** For replicas of the previous release: a purchase lands, after all that is known of the customer's. */
export async function provisionLicence(
  deps: LicensingDependencies,
  request: ProvisionLicenceRequest,
): Promise<MessageInitShape<typeof ProvisionLicenceResponseSchema>> {
  const { accountId, applicationId, paymentRef, planId, externalRef, expiresOn } = request
  const problem = problemOfText(externalRef, textLimits.reference)
  if (problem) throw invalid('/external_ref', problem)
  if (!isId('pln', planId)) throw planUnknown(request)
  const endsAt = expiresOn ? timestampDate(expiresOn) : null
  const [result] = await applyAll(deps, [
    {
      effect: {
        accountId,
        applicationId,
        purchaseRef: paymentRef,
        cause: paymentRef,
        at: undefined,
        orderedAt: undefined,
        what: { kind: 'landed', planId, externalRef, endsAt },
      },
    },
  ])
  if ('refused' in result!) throw result.refused
  return { licence: licenceMessage(result!.licence), created: result!.created }
}
