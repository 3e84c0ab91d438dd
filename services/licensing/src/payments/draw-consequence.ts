import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceSchema, PaymentCauseRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { findLicence } from '../licences/licence-queries.ts'
import { licenceMessage } from '../licences/licence-row.ts'
import { applyAll } from '../purchases/apply-purchase-effects.ts'
import type { Effect } from '../purchases/effect.ts'

type Consequence = Pick<PaymentCauseRequest, 'accountId' | 'licenceId' | 'cause'>

/** For replicas of the previous release: something has happened now to the purchase that the licence rests on. */
export async function drawConsequence(
  deps: LicensingDependencies,
  what: Effect['what'],
  { accountId, licenceId, cause }: Consequence,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  const found = await findLicence(deps.sql, { accountId, licenceId })
  if (!found) throw new ServiceError('not_found', `there is no licence ${licenceId}`)
  const about = { accountId, applicationId: found.application_id, purchaseRef: '', cause }
  const [result] = await applyAll(deps, [
    { licenceId, effect: { ...about, at: undefined, orderedAt: undefined, what } },
  ])
  if ('refused' in result!) throw result.refused
  return licenceMessage(result!.licence)
}
