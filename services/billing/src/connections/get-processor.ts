import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type { GetProcessorRequest, ProcessorSchema } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { processorMessage } from './connect-processor.ts'
import { findConnection } from './connection-queries.ts'

export async function getProcessor(
  { sql, processor }: BillingDependencies,
  { accountId }: GetProcessorRequest,
): Promise<MessageInitShape<typeof ProcessorSchema>> {
  const row = await findConnection(sql, accountId)
  if (!row || row.disconnected_at) {
    throw new ServiceError(
      'not_found',
      'no payment processor is connected: connect one with PUT /v1/processor',
    )
  }
  return processorMessage(row, processor)
}
