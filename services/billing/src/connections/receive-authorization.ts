import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type {
  ReceivedProcessorAuthorizationSchema,
  ReceiveProcessorAuthorizationRequest,
} from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { findAuthorization, releaseState, useState, writeConsent } from './authorization-queries.ts'
import { checkProcessor } from './connect-processor.ts'
import { hashOf, newSecret } from './secret.ts'

/**
 * A browser came back from the processor's consent page. Nothing is connected: the person is shown first whose account
 * it would be, since a link to that page can be made by one vendor and opened by another.
 */
export async function receiveAuthorization(
  deps: BillingDependencies,
  { processor: name, state, code, browser }: ReceiveProcessorAuthorizationRequest,
): Promise<MessageInitShape<typeof ReceivedProcessorAuthorizationSchema>> {
  const { sql, processor, catalog } = deps
  checkProcessor(processor, name)
  const [stateHash, browserHash] = [hashOf(state), hashOf(browser)]
  const authorization = await findAuthorization(sql, stateHash)
  if (!authorization?.is_open) throw noSuchState()
  const { account_id: accountId } = authorization
  const { name: accountName } = await catalog.getAccount({ accountId })
  // Used up before the processor is asked: of two that come with it one goes on.
  if (!(await useState(sql, stateHash, browserHash))) throw noSuchState()
  if (code === undefined) {
    throw new ServiceError(
      'bad_request',
      'access was not given on the page of the payment processor: begin again, and give it there',
    )
  }
  const connectedAccount = await redeem(deps, code).catch(async (error: unknown) => {
    if (error instanceof ServiceError && error.code === 'unavailable') {
      await releaseState(sql, stateHash, browserHash)
    }
    throw error
  })
  const confirmation = newSecret()
  await writeConsent(sql, stateHash, {
    merchant: `${name}:${connectedAccount}`,
    confirmationHash: hashOf(confirmation),
  })
  return { accountId, accountName, connectedAccount, confirmation }
}

async function redeem({ processor }: BillingDependencies, code: string): Promise<string> {
  const { connectedAccount, live } = await processor.redeemConsent(code)
  if (live !== processor.live || !/^acct_[A-Za-z0-9_]{1,250}$/.test(connectedAccount)) {
    throw new ServiceError(
      'bad_request',
      'the account has a different mode (test or live) than this platform',
    )
  }
  return connectedAccount
}

function noSuchState(): ServiceError {
  return new ServiceError(
    'bad_request',
    'this link was used before, is older than 15 minutes, or was not made here: begin again',
  )
}
