import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { MigrateLegacyKeyRequest, MigrateLegacyKeyResponseSchema } from '@licensing/proto/products'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { ProductDependencies } from '../dependencies.ts'
import { recordMigration } from './legacy-key-queries.ts'

/** The licence that was imported for a legacy key; the first exchange goes into its history. */
export async function migrateLegacyKey(
  { sql, lookups }: ProductDependencies,
  { applicationId, legacyKey }: MigrateLegacyKeyRequest,
): Promise<MessageInitShape<typeof MigrateLegacyKeyResponseSchema>> {
  // What cannot have been imported is not looked for.
  const licence = problemOfText(legacyKey, textLimits.reference)
    ? undefined
    : await lookups.imported({ applicationId, legacyKey })
  if (!licence) throw new ServiceError('not_found', 'there is no licence for this legacy key')
  if (!licence.migrated) await recordMigration(sql, licence.id)
  return { licenceId: licence.id, key: licence.key }
}
