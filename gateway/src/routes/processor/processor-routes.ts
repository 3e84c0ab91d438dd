import type { Processor } from '@licensing/proto/billing'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { isoText, timestampText } from '../../fields/timestamp.ts'
import { keylessRoute, vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const tag = 'Payment processor'
const name = z.enum(closedSets.processor)

const processorSchema = z
  .strictObject({
    processor: name,
    connected_account: z.string(),
    connected_at: timestampText,
    simulated: z.boolean().describe('Whether this is the local stand-in, which moves no money.'),
  })
  .meta({ id: 'Processor' })

const connectBody = z.strictObject({
  processor: name,
  connected_account: z
    .string()
    .regex(/^acct_[A-Za-z0-9_]{1,250}$/, 'must be a connected account’s id, such as acct_1SExample')
    .meta({ examples: ['acct_1SExample'] }),
})

function processorJson(processor: Processor): z.output<typeof processorSchema> {
  return {
    processor: readMember('processor', processor.processor),
    connected_account: processor.connectedAccount,
    connected_at: isoText(processor.connectedAt),
    simulated: processor.simulated,
  }
}

export const processorRoutes: Route[] = [
  vendorRoute({
    method: 'PUT',
    path: '/v1/processor',
    operationId: 'connectProcessor',
    tag,
    summary: 'Connect the account to a payment processor',
    scopes: ['admin'],
    accountWide: true,
    body: connectBody,
    answer: processorSchema,
    errors: ['already_exists'],
    handle: async ({ services, accountId, body }) => {
      const request = { accountId, processor: body.processor, connectedAccount: body.connected_account }
      return { body: processorJson(await services.billing.connectProcessor(request)) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/processor',
    operationId: 'getProcessor',
    tag,
    summary: 'Read which payment processor is connected',
    scopes: ['admin'],
    accountWide: true,
    answer: processorSchema,
    errors: ['not_found'],
    handle: async ({ services, accountId }) => ({
      body: processorJson(await services.billing.getProcessor({ accountId })),
    }),
  }),
  keylessRoute({
    method: 'POST',
    path: '/v1/processors/stripe/events',
    operationId: 'receiveStripeEvent',
    tag,
    summary: 'Receive an event of Stripe’s',
    description: 'For Stripe alone: verified by the signature over the exact bytes in `Stripe-Signature`.',
    audience: 'processor',
    rawBody: true,
    answer: z.strictObject({ received: z.literal(true) }),
    handle: async ({ services, sentBody, header }) => {
      await services.billing.receiveProcessorEvent({
        processor: 'stripe',
        body: sentBody as Buffer,
        signature: header('stripe-signature'),
      })
      return { body: { received: true as const } }
    },
  }),
]
