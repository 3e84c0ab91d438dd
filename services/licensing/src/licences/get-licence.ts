import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { GetLicenceRequest, LicenceDetailSchema } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { findDetail } from './detail-queries.ts'
import { licenceMessage } from './licence-row.ts'

export async function getLicence(
  { sql }: LicensingDeps,
  request: GetLicenceRequest,
): Promise<MessageInitShape<typeof LicenceDetailSchema>> {
  const row = await findDetail(sql, request)
  if (!row) throw new ServiceError('not_found', `there is no licence ${request.licenceId}`)
  return {
    licence: licenceMessage(row),
    entitlements: row.entitlements.map(({ key, kind, value }) => ({ key, kind, value })),
    activations: row.activations.map((activation) => ({
      id: activation.id,
      fingerprint: activation.fingerprint,
      host: activation.host,
      productVersion: activation.product_version,
      createdAt: timestampFromMs(activation.created_ms),
      lastSeenAt: timestampFromMs(activation.last_seen_ms),
    })),
    callHome: row.call_home.map((call) => ({
      host: call.host,
      productVersion: call.product_version,
      seenAt: timestampFromMs(call.seen_ms),
    })),
    ...(row.legacy_key !== null && { legacyKey: row.legacy_key }),
  }
}
