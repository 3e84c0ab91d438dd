import type { MessageInitShape } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { ActivateRequest, ActivateResponseSchema } from '@licensing/proto/products'
import { readLicenceKey } from '../licences/licence-key.ts'
import {
  countActivations,
  findActivationOf,
  insertActivation,
  lockLicenceOfKey,
} from './activation-queries.ts'
import type { ProductLicence } from './activation-queries.ts'
import { refusalReason, refused } from './admission.ts'
import type { ProductDeps } from './dependencies.ts'
import { grantMessage } from './grant-message.ts'

const unknownKey = () => new ServiceError('not_found', 'there is no licence with this key')

/** Gives a place of the licence to an installation, or finds the one it has, and grants it a token. */
export async function activate(
  deps: ProductDeps,
  request: ActivateRequest,
): Promise<MessageInitShape<typeof ActivateResponseSchema>> {
  const { fingerprint, productVersion } = checkInstallation(request)
  const host = request.host.toLowerCase()
  const key = readLicenceKey(request.licenceKey)
  if (key === undefined) throw unknownKey()
  const now = deps.now()
  const place = await transaction(deps.sql, async (tx) => {
    const licence = await lockLicenceOfKey(tx, key)
    if (!licence) throw unknownKey()
    const reason = refusalReason(licence, host, now)
    if (reason !== undefined) throw refused(reason)
    const known = await findActivationOf(tx, licence.id, fingerprint)
    if (known) return { id: known.id, licence, created: false }
    await needFreePlace(tx, licence)
    const id = newId('act')
    await insertActivation(tx, { id, licence, fingerprint, host, productVersion })
    return { id, licence, created: true }
  })
  await deps.callHome({
    activationId: place.id,
    licenceId: place.licence.id,
    applicationId: place.licence.application_id,
    host,
    productVersion,
    seenAt: now.toISOString(),
  })
  return { grant: await grantMessage(deps, place.id, place.licence, now), created: place.created }
}

async function needFreePlace(
  tx: Parameters<typeof countActivations>[0],
  licence: ProductLicence,
): Promise<void> {
  if (licence.max_activations === null) return
  if ((await countActivations(tx, licence.id)) < licence.max_activations) return
  throw new ServiceError(
    'limit_reached',
    `the licence is active on ${licence.max_activations} installations already: deactivate one of them first`,
  )
}

function checkInstallation(request: ActivateRequest): { fingerprint: string; productVersion: string } {
  const { fingerprint, productVersion } = request
  if (fingerprint.length === 0 || fingerprint.length > 256)
    throw invalid('/fingerprint', 'must have 1 to 128 characters')
  if (productVersion.length === 0 || productVersion.length > 256) {
    throw invalid('/product_version', 'must have 1 to 128 characters')
  }
  return { fingerprint, productVersion }
}
