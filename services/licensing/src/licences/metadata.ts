import { checkMetadata } from '@licensing/grpc/checks'
import { invalid } from '@licensing/grpc/errors'
import type { UpdateLicenceRequest } from '@licensing/proto/licensing'
import { changedMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'

type MetadataChange = NonNullable<UpdateLicenceRequest['metadata']>

/** @throws ServiceError `validation_failed` with a pointer to the invalid entry */
export function checkMetadataChange({ set, remove }: MetadataChange): void {
  checkMetadata({ entries: set })
  for (const name of remove) checkMetadata({ entries: { [name]: '' } })
}

/** @throws ServiceError `validation_failed` if it would have too many entries */
export function metadataAfter(held: Metadata, change: MetadataChange): Metadata {
  const { metadata, problem } = changedMetadata(held, change)
  if (problem !== undefined) throw invalid('/metadata', problem)
  return metadata
}

/** The entries in the order of their names: PostgreSQL has an order of its own. */
export function byName(metadata: Metadata): Metadata {
  return Object.fromEntries(Object.entries(metadata).sort(([a], [b]) => (a < b ? -1 : 1)))
}
