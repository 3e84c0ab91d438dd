import { problemOfMetadata } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { invalid } from './errors.ts'

/** @throws ServiceError `validation_failed` if a vendor's reference cannot be stored */
export function checkReference(pointer: string, text: string): void {
  const problem = problemOfText(text, textLimits.reference)
  if (problem) throw invalid(pointer, problem)
}

/**
 * Checks the `metadata` of a request and returns its entries.
 *
 * @throws ServiceError `validation_failed` with a pointer to the wrong entry
 */
export function checkMetadata(metadata: { entries: Metadata } | undefined): Metadata {
  const entries = metadata?.entries ?? {}
  const wrong = problemOfMetadata(entries)
  if (wrong) throw invalid(`/metadata${wrong.pointer}`, wrong.problem)
  return entries
}
