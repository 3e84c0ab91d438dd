import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { invalid } from '@licensing/grpc/errors'
import type { LicenceSchema, RenewLicenceRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { drawConsequence } from './draw-consequence.ts'

/** For replicas of the previous release: a later invoice of the same subscription is paid. */
export async function renewLicence(
  deps: LicensingDependencies,
  request: RenewLicenceRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  if (!request.expiresOn) throw invalid('/expires_on', 'is needed')
  const endsAt = timestampDate(request.expiresOn)
  return drawConsequence(deps, { kind: 'renewed', endsAt, planId: undefined }, request)
}
