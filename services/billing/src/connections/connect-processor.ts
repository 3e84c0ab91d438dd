import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { transaction } from '@licensing/database/transaction'
import { invalid } from '@licensing/grpc/errors'
import type { ConnectProcessorRequest, ProcessorSchema } from '@licensing/proto/billing'
import type { BillingDeps } from '../dependencies.ts'
import type { PaymentProcessor } from '../processors/processor.ts'
import { insertReconciliation, makeCurrent } from './connection-queries.ts'
import type { ConnectionRow } from './connection-queries.ts'

/**
 * Connects the account to a processor. Several accounts may sell through one merchant: what the processor tells of it
 * is found by session and charge, so that none sees the others' sales.
 */
export async function connectProcessor(
  { sql, processor }: BillingDeps,
  { accountId, processor: name, connectedAccount }: ConnectProcessorRequest,
): Promise<MessageInitShape<typeof ProcessorSchema>> {
  if (name !== processor.name) throw invalid('/processor', `must be ${processor.name}`)
  if (!/^acct_[A-Za-z0-9_]{1,250}$/.test(connectedAccount)) {
    throw invalid('/connected_account', 'must be the id of a connected account, acct_…')
  }
  const merchant = `${name}:${connectedAccount}`
  const row = await transaction(sql, async (tx) => {
    await insertReconciliation(tx, merchant)
    return makeCurrent(tx, accountId, merchant)
  })
  return processorMessage(row, processor)
}

export function processorMessage(
  row: ConnectionRow,
  processor: PaymentProcessor,
): MessageInitShape<typeof ProcessorSchema> {
  const colon = row.merchant.indexOf(':')
  return {
    processor: row.merchant.slice(0, colon),
    connectedAccount: row.merchant.slice(colon + 1),
    connectedAt: timestampFromDate(row.connected_at),
    simulated: processor.simulated,
  }
}
