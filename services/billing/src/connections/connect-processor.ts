import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { ConnectProcessorRequest, ProcessorSchema } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import type { PaymentProcessor } from '../processors/processor.ts'
import { connectMerchant } from './connect-merchant.ts'
import { hasProven } from './connection-queries.ts'
import type { ConnectionRow } from './connection-queries.ts'

/**
 * Connects the account to one at the processor that the platform reaches. What was sold through it before stays with
 * the account that sold it: it is found by session and charge.
 */
export async function connectProcessor(
  deps: BillingDependencies,
  { accountId, processor: name, connectedAccount }: ConnectProcessorRequest,
): Promise<MessageInitShape<typeof ProcessorSchema>> {
  const { processor, processorClaim } = deps
  checkProcessor(processor, name)
  if (!/^acct_[A-Za-z0-9_]{1,250}$/.test(connectedAccount)) {
    throw invalid('/connected_account', 'must be the id of a connected account, acct_…')
  }
  if (!(await processor.isConnected(connectedAccount))) throw notConnected(connectedAccount)
  const merchant = `${name}:${connectedAccount}`
  const row = await connectMerchant(deps, { accountId, merchant }, async (tx) => {
    if (processorClaim === 'authorize' && !(await hasProven(tx, accountId, merchant))) {
      throw notProven(connectedAccount)
    }
  })
  return processorMessage(row, processor)
}

export function checkProcessor(processor: PaymentProcessor, name: string): void {
  if (name !== processor.name) throw invalid('/processor', `must be ${processor.name}`)
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
    livemode: processor.live,
  }
}

function notConnected(connectedAccount: string): ServiceError {
  return invalid(
    '/connected_account',
    `the payment processor knows no account ${connectedAccount} that is connected to this platform`,
  )
}

function notProven(connectedAccount: string): ServiceError {
  return new ServiceError(
    'conflict',
    `this account has not proven that ${connectedAccount} is its own: make POST /v1/processor/authorizations and open its url`,
    { members: { current: 'not_proven', allowed: [] } },
  )
}
