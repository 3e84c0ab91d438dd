import type { MessageInitShape } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import type {
  ConfirmedProcessorAuthorizationSchema,
  ConfirmProcessorAuthorizationRequest,
} from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { findConsent, takeConsent } from './authorization-queries.ts'
import { connectMerchant } from './connect-merchant.ts'
import { checkProcessor } from './connect-processor.ts'
import { hashOf } from './secret.ts'

/** The person who consented, in the browser that came back, connects the account that the page named. */
export async function confirmAuthorization(
  deps: BillingDependencies,
  { processor: name, confirmation, browser }: ConfirmProcessorAuthorizationRequest,
): Promise<MessageInitShape<typeof ConfirmedProcessorAuthorizationSchema>> {
  const { sql, processor, catalog } = deps
  checkProcessor(processor, name)
  const confirmationHash = hashOf(confirmation)
  const consent = await findConsent(sql, confirmationHash, hashOf(browser))
  if (!consent) throw noSuchConsent()
  const { account_id: accountId, merchant } = consent
  const connectedAccount = merchant.slice(name.length + 1)
  const { name: accountName } = await catalog.getAccount({ accountId })
  // It may have been withdrawn since.
  if (!(await processor.isConnected(connectedAccount))) {
    throw new ServiceError('bad_request', `${connectedAccount} is no longer connected to this platform`)
  }
  await connectMerchant(deps, { accountId, merchant }, async (tx) => {
    if (!(await takeConsent(tx, confirmationHash))) throw noSuchConsent()
  })
  return { accountId, accountName, connectedAccount }
}

function noSuchConsent(): ServiceError {
  return new ServiceError(
    'bad_request',
    'this page was confirmed before, is older than 15 minutes, or was opened in another browser: begin again',
  )
}
