import { ProcessorSchema } from '@licensing/proto/billing'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { renderer } from '../../fields/messages.ts'
import { timestampText } from '../../fields/time.ts'
import { keylessRoute, vendorRoute } from '../../route.ts'
import type { Route } from '../../route.ts'

const tag = 'Payment processor'
const name = z.enum(closedSets.processor)

const processorSchema = z
  .strictObject({
    processor: name,
    connected_account: z.string(),
    connected_at: timestampText,
    livemode: z.boolean().describe('true if real money is charged; false in the processor’s test mode.'),
  })
  .meta({ id: 'Processor' })

const processorJson = renderer(ProcessorSchema, processorSchema)

const connectBody = z.strictObject({
  processor: name,
  connected_account: z
    .string()
    .regex(/^acct_[A-Za-z0-9_]{1,250}$/, 'must be a connected account’s id, such as acct_1SExample')
    .meta({ examples: ['acct_1SExample'] }),
})

const authorizationSchema = z
  .strictObject({
    url: z.string().describe('Open it in a browser. It works once, for 15 minutes.'),
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
      'The account must exist at the processor and be connected to the platform (422 otherwise), and must not be connected to another vendor account (409 `already_exists`). 503 if the processor does not answer. Connecting another account releases the previous one; its past sales stay with this vendor account. If the service requires proof of ownership, an account without proof is refused with 409 `conflict`: use `POST /v1/processor/authorizations`.',
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
    summary: 'Connect a payment processor account through its consent page',
    description:
      'Open `url` in a browser and grant access on the page of the processor. It redirects to a page of this service, which shows the vendor account and a button to connect.',
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
    summary: 'Get the connected payment processor account',
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
    summary: 'Receive a Stripe event',
    description: 'Called by Stripe. The signature in `Stripe-Signature` is verified over the raw body.',
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
