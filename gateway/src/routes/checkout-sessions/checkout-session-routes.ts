import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { CheckoutSessionSchema } from '@licensing/proto/billing'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { period, timestampText } from '../../fields/time.ts'
import { renderer } from '../../fields/messages.ts'
import { metadata } from '../../fields/metadata.ts'
import { optional, storableText, webAddress } from '../../fields/text.ts'
import { vendorRoute, within } from '../../route.ts'
import type { CallIn, Route } from '../../route.ts'
import { id, reference } from '../../fields/id.ts'
import { currencyText, minorUnitsNumber } from '../../fields/money.ts'
import { externalRef } from '../licences/licence-fields.ts'

const tag = 'Checkout and sales'
const all = '/v1/apps/{app_id}/checkout-sessions'
const one = '/v1/apps/{app_id}/checkout-sessions/{session_id}'

// Billing calls the payment processor while the caller waits.
const processorMs = 20_000

type SessionCall = CallIn<'session_id'>

function sessionScope(call: SessionCall) {
  return { ...within(call), sessionId: call.params.session_id }
}

function findSession(call: SessionCall) {
  return call.services.billing.getCheckoutSession(sessionScope(call))
}

const checkoutSessionSchema = z
  .strictObject({
    id: id('cs'),
    url: z.string().describe('Where to send the customer to pay.'),
    status: z.enum(closedSets.checkoutStatus),
    plan_id: id('pln'),
    external_ref: z.string(),
    amount: minorUnitsNumber,
    currency: currencyText,
    fee_minor: minorUnitsNumber.describe('The service’s transaction fee.'),
    created_at: timestampText,
    licence_id: id('lic').nullable(),
    reason: z.string().nullable().describe('Error code: why no licence could be issued; null otherwise.'),
  })
  .meta({ id: 'CheckoutSession' })

const checkoutSessionJson = renderer(CheckoutSessionSchema, checkoutSessionSchema)

const createCheckoutSessionBody = z.strictObject({
  plan_id: reference('pln', 'plan'),
  external_ref: externalRef,
  success_url: webAddress.describe('Where the customer goes after paying.'),
  cancel_url: webAddress.describe('Where the customer goes if the payment is cancelled.'),
  metadata: optional(metadata).describe('Merged into the metadata of the licence when the payment arrives.'),
})

export const checkoutSessionRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: all,
    operationId: 'createCheckoutSession',
    tag,
    summary: 'Create a checkout session',
    scopes: ['issue'],
    body: createCheckoutSessionBody,
    status: 201,
    answer: checkoutSessionSchema,
    errors: ['plan_archived', 'spend_cap_reached', 'conflict'],
    handle: async (call) => {
      const {
        plan_id: planId,
        external_ref: externalRef,
        success_url: successUrl,
        cancel_url: cancelUrl,
        metadata,
      } = call.body
      const urls = { successUrl, cancelUrl }
      const entries = metadata && { entries: metadata }
      const request = { ...within(call), planId, externalRef, ...urls, metadata: entries }
      const session = await call.services.billing.createCheckoutSession(request, { timeoutMs: processorMs })
      return { body: checkoutSessionJson(session) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: all,
    operationId: 'listCheckoutSessions',
    tag,
    summary: 'List checkout sessions',
    description: 'Filters can be combined.',
    scopes: ['read'],
    query: z.strictObject({
      limit,
      cursor: idCursor('cs'),
      status: z.enum(closedSets.checkoutStatus).optional(),
      external_ref: storableText.optional(),
      ...period,
    }),
    answer: pageOf(checkoutSessionSchema),
    handle: async (call) => {
      const { sessions, hasMore } = await call.services.billing.listCheckoutSessions({
        ...within(call),
        limit: call.query.limit,
        beforeId: call.query.cursor,
        status: call.query.status,
        externalRef: call.query.external_ref,
        since: call.query.since,
        until: call.query.until,
      })
      return { body: page(sessions.map(checkoutSessionJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: one,
    operationId: 'getCheckoutSession',
    tag,
    summary: 'Get a checkout session',
    scopes: ['read'],
    answer: checkoutSessionSchema,
    handle: async (call) => ({ body: checkoutSessionJson(await findSession(call)) }),
  }),
  vendorRoute({
    method: 'POST',
    path: `${one}/replay`,
    operationId: 'replayCheckoutSession',
    tag,
    summary: 'Provision a paid checkout session whose licence could not be issued',
    scopes: ['issue'],
    answer: checkoutSessionSchema,
    errors: ['conflict', 'plan_archived'],
    lookUp: findSession,
    handle: async (call) => {
      const session = await call.services.billing.replayCheckoutSession(sessionScope(call), {
        timeoutMs: processorMs,
      })
      return { body: checkoutSessionJson(session) }
    },
  }),
]
