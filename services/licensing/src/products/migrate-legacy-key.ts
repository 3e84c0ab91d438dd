import type { MessageInitShape } from '@bufbuild/protobuf'
import { transaction } from '@licensing/database/transaction'
import { ServiceError } from '@licensing/grpc/errors'
import type { MigrateLegacyKeyRequest, MigrateLegacyKeyResponseSchema } from '@licensing/proto/products'
import { findByLegacyKey, markMigrated } from './activation-queries.ts'
import type { ProductDeps } from './dependencies.ts'

/** The licence that was imported for a legacy key; the first exchange goes into its history. */
export async function migrateLegacyKey(
  { sql }: ProductDeps,
  request: MigrateLegacyKeyRequest,
): Promise<MessageInitShape<typeof MigrateLegacyKeyResponseSchema>> {
  const licence = await findByLegacyKey(sql, request.applicationId, request.legacyKey)
  if (!licence) throw new ServiceError('not_found', 'there is no licence for this legacy key')
  if (!licence.migrated) {
    await transaction(sql, async (tx) => {
      if (!(await markMigrated(tx, licence.id))) return
      await tx`
        insert into licence_history (licence_id, type, from_status, to_status, actor)
        select id, 'migrated', status, status, 'product' from licences where id = ${licence.id}`
    })
  }
  return { licenceId: licence.id, key: licence.key }
}
