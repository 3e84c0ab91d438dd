import { invalid } from '@licensing/grpc/errors'
import { problemOfMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'

/** @throws ServiceError `validation_failed` with a pointer to the invalid entry */
export function checkedMetadata(metadata: Metadata): Metadata {
  const wrong = problemOfMetadata(metadata)
  if (wrong) throw invalid(`/metadata${wrong.pointer}`, wrong.problem)
  return metadata
}
