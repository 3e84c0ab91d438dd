import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import { trimUnseen } from '@licensing/formats/licence-key'
import type { MigrateLegacyKeyRequest, MigrateLegacyKeyResponseSchema } from '@licensing/proto/products'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { ProductDependencies } from '../dependencies.ts'
import { recordMigration } from './legacy-key-queries.ts'

/** Returns the licence that was imported with a legacy key. The history gets an entry for the first such call. */
export async function migrateLegacyKey(
  { change, lookups }: ProductDependencies,
  { applicationId, legacyKey: given }: MigrateLegacyKeyRequest,
): Promise<MessageInitShape<typeof MigrateLegacyKeyResponseSchema>> {
  const legacyKey = trimUnseen(given)
  // An import refuses such a key, so no licence has it.
  const licence = problemOfText(legacyKey, textLimits.reference)
    ? undefined
    : await lookups.imported({ applicationId, legacyKey })
  if (!licence) throw new ServiceError('not_found', 'there is no licence for this legacy key')
  if (!licence.migrated) await change((tx) => recordMigration(tx, licence.id))
  return { licenceId: licence.id, key: licence.key }
}
