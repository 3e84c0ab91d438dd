import type { Transaction } from '@licensing/database/connect'
import { LicenceSchema } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import type { Handler } from '../dependencies.ts'
import { insertHistory } from '../lifecycle/history-queries.ts'
import { statuses } from '../lifecycle/licence.ts'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { lockLicence } from '../lifecycle/licence-queries.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { conflictOf, licenceNotFound } from '../lifecycle/refusals.ts'
import { replaceKey } from './update-queries.ts'

/**
 * Gives a licence a new key (docs/guides/licences.md, "A new key"). Nothing caches keys, so the former one is unknown from the commit on.
 * Activations and tokens do not contain the key.
 */
export const rotateKey: Handler<'rotateLicenceKey'> = async ({ change }, request) => {
  const answer = { schema: LicenceSchema, toMessage: licenceMessage }
  return licenceMessage(await change((tx) => rotateIn(tx, request), { answer }))
}

async function rotateIn(tx: Transaction, request: LifecycleRequest): Promise<LicenceRow> {
  const licence = await lockLicence(tx, request)
  if (!licence) throw licenceNotFound(request)
  if (statuses[licence.status].isOver) {
    throw conflictOf(licence, 'active', 'a revoked or retired licence gets no new key')
  }
  const rotated = await replaceKey(tx, licence.id, newLicenceKey())
  const { id: licenceId, status, updated_at: at } = rotated
  await insertHistory(tx, [
    { licenceId, type: 'key_rotated', from: status, to: status, actor: request.actor, at },
  ])
  return rotated
}
