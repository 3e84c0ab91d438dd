import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { append } from '@licensing/events/outbox'
import { invalid } from '@licensing/grpc/errors'
import type { LicenceSchema, RenewLicenceRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { insertHistory } from '../licences/history-queries.ts'
import { licenceEvent } from '../licences/licence.ts'
import { addToCounts } from '../licences/transition-queries.ts'
import { once } from './draw-consequence.ts'
import { afterRenewal } from './effects.ts'
import { writeStanding } from './payment-queries.ts'

export async function renewLicence(
  deps: LicensingDeps,
  request: RenewLicenceRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  if (!request.expiresOn) throw invalid('/expires_on', 'is needed')
  const expiresOn = timestampDate(request.expiresOn)
  return once(deps, 'renewed', request, async (tx, licence, planIsActive) => {
    const standing = {
      status: licence.status,
      reason: licence.status_reason,
      expiresOn: licence.expires_on,
      expiredFrom: licence.expired_from,
      expiredFromReason: licence.expired_from_reason,
    }
    const renewal = afterRenewal(standing, expiresOn, new Date(), planIsActive)
    if (!renewal) return undefined
    const row = await writeStanding(tx, licence.id, renewal.licence)
    const by = { licenceId: row.id, actor: 'processor', cause: request.cause }
    await insertHistory(
      tx,
      renewal.history.map((entry) => ({ ...entry, ...by })),
    )
    const change = Number(row.status === 'active') - Number(licence.status === 'active')
    await addToCounts(tx, new Map([[row.plan_id, change]]))
    if (renewal.emits) await append(tx, licenceEvent(renewal.emits, row))
    return row
  })
}
