import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { audit, changesOf } from '@licensing/changes/audit'
import type { Changes } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { brokenConstraint } from '@licensing/database/problems'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { ProcessorSchema } from '@licensing/proto/billing'
import type { RequestCaller } from '@licensing/process/context'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { insertReconciliation } from './reconciliation-queries.ts'
import type { PaymentProcessor } from '../processor/stripe/stripe-processor.ts'
import {
  hasProven,
  deleteUnused,
  holderConstraint,
  lockConnection,
  lockConnections,
  makeCurrent,
  findConnection,
} from './connection-queries.ts'
import type { ConnectionRow } from './connection-queries.ts'

/**
 * Connects a vendor account to an account at the processor that the platform can reach. Earlier sales through it remain
 * with the vendor account that made them: they are found by session and charge.
 */
export const connectProcessor: Handler<'connectProcessor'> = async (
  deps,
  { accountId, processor: name, connectedAccount },
) => {
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

/** A connection that the vendor has ended at the processor is none. */
export function connectionChanges(
  processor: PaymentProcessor,
  before: ConnectionRow | undefined,
  after: ConnectionRow | undefined,
): Changes | undefined {
  const shown = (row: ConnectionRow | undefined) =>
    row && !row.disconnected_at ? processorMessage(row, processor) : undefined
  return changesOf(ProcessorSchema, shown(before), shown(after))
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

// The most connections that an account may make in ten minutes without a sale through them. Each costs a comparison with the
// processor's events.
const maxUnused = 20

/**
 * Makes a merchant the current one of an account. A constraint decides which of two vendors gets it.
 *
 * @param first called first in the transaction
 * @param by who connects it, if it is not the caller
 */
export async function connectMerchant(
  { change, processor }: Pick<BillingDependencies, 'change' | 'processor'>,
  { accountId, merchant }: { accountId: string; merchant: string },
  first: (tx: Transaction) => Promise<void>,
  by?: RequestCaller,
): Promise<ConnectionRow> {
  try {
    return await change(async (tx) => {
      await lockConnections(tx, accountId)
      await first(tx)
      const before = await lockConnection(tx, accountId)
      await insertReconciliation(tx, merchant)
      const row = await makeCurrent(tx, accountId, merchant)
      const changes = connectionChanges(processor, before, row)
      await audit(tx, { accountId, resourceId: accountId, changes, by })
      if ((await deleteUnused(tx, accountId)) > maxUnused) {
        throw new ServiceError(
          'rate_limited',
          'too many accounts were connected one after the other: try again in ten minutes',
        )
      }
      return row
    })
  } catch (error) {
    if (brokenConstraint(error) === holderConstraint) throw connectedToAnother(merchant)
    throw error
  }
}

function connectedToAnother(merchant: string): ServiceError {
  const connectedAccount = merchant.slice(merchant.indexOf(':') + 1)
  return new ServiceError(
    'already_exists',
    `${connectedAccount} is connected to another vendor account: connect another one there, or withdraw the platform's access at the payment processor first`,
  )
}

export const getProcessor: Handler<'getProcessor'> = async ({ sql, processor }, { accountId }) => {
  const row = await findConnection(sql, accountId)
  if (!row || row.disconnected_at) {
    throw new ServiceError(
      'not_found',
      'no payment processor is connected: connect one with PUT /v1/processor',
    )
  }
  return processorMessage(row, processor)
}
