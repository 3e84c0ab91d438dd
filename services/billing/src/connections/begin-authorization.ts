import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { ProcessorAuthorizationSchema } from '@licensing/proto/billing'
import type { BeginProcessorAuthorizationRequest } from '@licensing/proto/billing'
import type { BillingDependencies } from '../dependencies.ts'
import { insertAuthorization } from './authorization-queries.ts'
import { checkProcessor } from './connect-processor.ts'
import { hashOf, newSecret } from './secret.ts'

const answer = { schema: ProcessorAuthorizationSchema, of: (url: string) => ({ url }) }

/** Where a vendor proves an account: the processor's own consent page, with a state that is this account's. */
export async function beginAuthorization(
  { change, processor }: BillingDependencies,
  { accountId, processor: name, returnUrl }: BeginProcessorAuthorizationRequest,
): Promise<MessageInitShape<typeof ProcessorAuthorizationSchema>> {
  checkProcessor(processor, name)
  const state = newSecret()
  const url = processor.consentUrl(state, returnUrl)
  const insert = async (tx: Transaction) => {
    await insertAuthorization(tx, { stateHash: hashOf(state), accountId })
    return url
  }
  return answer.of(await change(insert, { answer }))
}
