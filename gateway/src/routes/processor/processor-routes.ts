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
    livemode: z.boolean().describe('Whether money moves; false in the processor’s test mode.'),
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
    livemode: processor.livemode,
  }
}

const authorizationSchema = z
  .strictObject({
    url: z.string().describe('To open in a browser, within 15 minutes and once.'),
  })
  .meta({ id: 'ProcessorAuthorization' })

export const authorizedPath = '/v1/processors/stripe/authorized'

export const processorRoutes: Route[] = [
  vendorRoute({
    method: 'PUT',
    path: '/v1/processor',
    operationId: 'connectProcessor',
    tag,
    summary: 'Connect the account to a payment processor',
    description:
      'The account at the processor exists, is connected to the platform (else 422) and to no other vendor account (else `already_exists`); 503 where the processor cannot be asked. Connecting another releases the one before; what was sold through that one stays here. Where accounts have to be proven, one that was not is `conflict`.',
    scopes: ['admin'],
    accountWide: true,
    body: connectBody,
    answer: processorSchema,
    errors: ['already_exists', 'conflict'],
    handle: async ({ services, accountId, body }) => {
      const request = { accountId, processor: body.processor, connectedAccount: body.connected_account }
      return { body: processorJson(await services.billing.connectProcessor(request)) }
    },
  }),
  vendorRoute({
    method: 'POST',
    path: '/v1/processor/authorizations',
    operationId: 'authorizeProcessor',
    tag,
    summary: 'Prove an account at the payment processor, and connect it',
    description:
      'Open `url` in a browser: on the page of the processor its holder gives access to it, comes back to a page here that names the vendor account, and connects it with a click.',
    scopes: ['admin'],
    accountWide: true,
    status: 201,
    answer: authorizationSchema,
    handle: async ({ services, accountId, ownUrl }) => {
      const returnUrl = `${ownUrl}${authorizedPath}`
      const request = { accountId, processor: 'stripe', returnUrl }
      const { url } = await services.billing.beginProcessorAuthorization(request)
      return { body: { url } }
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
