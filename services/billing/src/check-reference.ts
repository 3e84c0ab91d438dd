import { invalid } from '@licensing/grpc/errors'
import { problemOfText, textLimits } from '@licensing/proto/text'

/** @throws ServiceError `validation_failed` where a reference of the vendor's cannot be kept as it is */
export function checkReference(pointer: string, text: string): void {
  const problem = problemOfText(text, textLimits.reference)
  if (problem) throw invalid(pointer, problem)
}
