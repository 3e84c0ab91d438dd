import { ServiceError } from '@licensing/grpc/errors'
import type { Transaction } from '@licensing/database/connect'
import { ProcessorAuthorizationSchema } from '@licensing/proto/billing'
import { hash, randomBytes } from 'node:crypto'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import {
  insertAuthorization,
  releaseState,
  consumeState,
  writeConsent,
  findConsent,
  deleteConsent,
} from './authorization-queries.ts'
import { checkProcessor, connectMerchant } from './connect-account.ts'

const answer = { schema: ProcessorAuthorizationSchema, toMessage: (url: string) => ({ url }) }

/** Returns the address of the processor's consent page, on which a vendor proves that it owns an account. */
export const beginAuthorization: Handler<'beginProcessorAuthorization'> = async (
  { change, processor },
  { accountId, processor: name, returnUrl },
) => {
  checkProcessor(processor, name)
  const state = newSecret()
  const url = processor.consentUrl(state, returnUrl)
  const insert = async (tx: Transaction) => {
    await insertAuthorization(tx, { stateHash: hashOf(state), accountId })
    return url
  }
  return answer.toMessage(await change(insert, { answer }))
}

/**
 * Receives a browser that returned from the processor's consent page. Nothing is connected yet: the page first shows which
 * vendor account would be connected, because one vendor can make a link to the consent page and another can open it.
 */
export const receiveAuthorization: Handler<'receiveProcessorAuthorization'> = async (
  deps,
  { processor: name, state, code, browser },
) => {
  const { sql, processor, catalog } = deps
  checkProcessor(processor, name)
  const [stateHash, browserHash] = [hashOf(state), hashOf(browser)]
  // The state is used before the processor is called, so that only one of two requests with it continues.
  const accountId = await consumeState(sql, stateHash, browserHash)
  if (accountId === undefined) throw noSuchState()
  if (code === undefined) {
    throw new ServiceError(
      'bad_request',
      'access was not given on the page of the payment processor: begin again, and give it there',
    )
  }
  const consent = async () => {
    const { name: accountName } = await catalog.getAccount({ accountId })
    return { accountName, connectedAccount: await redeem(deps, code) }
  }
  const { accountName, connectedAccount } = await consent().catch(async (error: unknown) => {
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

/** Connects the account, for the person who consented in the same browser. */
export const confirmAuthorization: Handler<'confirmProcessorAuthorization'> = async (
  deps,
  { processor: name, confirmation, browser },
) => {
  const { sql, processor, catalog } = deps
  checkProcessor(processor, name)
  const confirmationHash = hashOf(confirmation)
  const consent = await findConsent(sql, confirmationHash, hashOf(browser))
  if (!consent) throw noSuchConsent()
  const { account_id: accountId, merchant } = consent
  const connectedAccount = merchant.slice(name.length + 1)
  const { name: accountName } = await catalog.getAccount({ accountId })
  // The consent may have been withdrawn since.
  if (!(await processor.isConnected(connectedAccount))) {
    throw new ServiceError('bad_request', `${connectedAccount} is no longer connected to this platform`)
  }
  const use = async (tx: Transaction) => {
    if (!(await deleteConsent(tx, confirmationHash))) throw noSuchConsent()
  }
  await connectMerchant(deps, { accountId, merchant }, use, byProcessor)
  return { accountId, accountName, connectedAccount }
}

/** The processor's consent page proves that the account is the vendor's: no API key does. */
const byProcessor = { actor: 'processor', operation: 'connectProcessor' }

function noSuchConsent(): ServiceError {
  return new ServiceError(
    'bad_request',
    'this page was confirmed before, is older than 15 minutes, or was opened in another browser: begin again',
  )
}

/** 256 random bits. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** Only this hash of a secret is stored. */
export function hashOf(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}
