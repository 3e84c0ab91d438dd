import { z } from 'zod'
import { expireSession, openCheckout, priceOfLine } from '../flows/checkout.ts'
import { openPortal } from '../flows/portal.ts'
import { refundFee } from '../flows/refund.ts'
import { newId, platformApplication } from '../ids.ts'
import { eventAsOfVersion } from '../objects/api-version.ts'
import type { List, WebhookEndpoint } from '../objects/wire.ts'
import { list, needOwned, settingsOf, type Owner, type World } from '../world.ts'
import { connectedAccount, refuseUnlessConnected } from './accounts.ts'
import { invalidRequest } from './errors.ts'
import { flag, integer, listOf, metadata, read, text, webUrl, type Shape } from './forms.ts'

/** One authenticated API request. */
type Call = {
  world: World
  /** The account in `Stripe-Account`; null for the platform. */
  account: Owner
  /** The id in the path; empty if the path has none. */
  id: string
}

type Method = 'GET' | 'POST'
export type Route = { method: Method; path: string; run: (call: Call, values: unknown) => object }

function route<Known extends Shape>(
  method: Method,
  path: string,
  shape: Known,
  run: (call: Call, parameters: z.output<z.ZodObject<Known>>) => object,
): Route {
  return { method, path, run: (call, values) => run(call, read(shape, values)) }
}

type ObjectMap<T> = (world: World) => Map<string, T>

/** Reads one object by its id. */
function one<T extends object>(path: string, kind: string, objects: ObjectMap<T>): Route {
  return route('GET', `${path}/:id`, {}, ({ world, account, id }) =>
    needOwned(world, account, objects(world), kind, id),
  )
}

const paging = {
  limit: integer(1).default(10),
  starting_after: text.optional(),
  created: z
    .strictObject({
      gt: integer().optional(),
      gte: integer().optional(),
      lt: integer().optional(),
      lte: integer().optional(),
    })
    .optional(),
}
type Paging = z.output<z.ZodObject<typeof paging>>

/** Lists the objects of the account that match the call's filters. */
function listing<T extends { id: string; created: number }, Filters extends Shape>(
  path: string,
  objects: ObjectMap<T>,
  filters: Filters,
  matches: (object: T, parameters: z.output<z.ZodObject<Filters>>) => boolean,
): Route {
  return route('GET', path, { ...paging, ...filters }, ({ world, account }, parameters) =>
    page(
      path,
      parameters as Paging,
      list(world, account, objects(world), (each) =>
        matches(each, parameters as z.output<z.ZodObject<Filters>>),
      ),
    ),
  )
}

/** One page of a list that is sorted newest first, with Stripe's cursor and `created` filter. */
function page<T extends { id: string; created?: number }>(
  url: string,
  { limit, starting_after: after, created: range = {} }: Paging,
  everything: T[],
): List<T> {
  const { gt = -Infinity, gte = -Infinity, lt = Infinity, lte = Infinity } = range
  const all = everything.filter(
    ({ created = 0 }) => created > gt && created >= gte && created < lt && created <= lte,
  )
  if (limit > 100) throw invalidRequest('Invalid limit: must be at most 100', { param: 'limit' })
  const start = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1
  if (after !== undefined && start === 0) {
    throw invalidRequest(`No such object: '${after}'`, { code: 'resource_missing', param: 'starting_after' })
  }
  const data = all.slice(start, start + limit)
  return { object: 'list', data, has_more: all.length > start + limit, url }
}

/** Lists objects that belong to a charge. */
function byCharge<T extends { id: string; created: number; charge: string | null }>(
  path: string,
  objects: ObjectMap<T>,
): Route {
  const filters = { charge: text.optional() }
  return listing(path, objects, filters, (each, of) => of.charge === undefined || each.charge === of.charge)
}

const fees = '/v1/application_fees'

/** The routes of Stripe's API that the simulator supports. */
export const routes: Route[] = [
  route('GET', '/v1/accounts/:id', {}, ({ world, id }) => {
    refuseUnlessConnected(world, id)
    return connectedAccount(id)
  }),

  one('/v1/checkout/sessions', 'checkout.session', (world) => world.sessions),
  route(
    'POST',
    '/v1/checkout/sessions',
    {
      mode: z.enum(['payment', 'subscription']),
      success_url: webUrl,
      cancel_url: webUrl.optional(),
      client_reference_id: text.max(200, 'Longer than at most 200 characters').optional(),
      metadata,
      line_items: listOf(z.strictObject({ price: text, quantity: integer(1).default(1) })),
      payment_intent_data: z
        .strictObject({
          application_fee_amount: integer().optional(),
          metadata,
        })
        .optional(),
      subscription_data: z
        .strictObject({
          application_fee_percent: text
            .regex(/^(100|\d{1,2}(\.\d{1,2})?)$/, 'Not a percentage')
            .transform(Number)
            .optional(),
          metadata,
        })
        .optional(),
    },
    ({ world, account }, of) => {
      const other = of.mode === 'payment' ? 'subscription_data' : 'payment_intent_data'
      if (of[other] !== undefined) {
        throw invalidRequest(`You can not pass \`${other}\` in \`${of.mode}\` mode.`, { param: other })
      }
      const lines = of.line_items.map(({ price: id, quantity }, index) => {
        const price = priceOfLine(world, account, id, of.metadata)
        if (price !== undefined) return { price, quantity }
        const param = `line_items[${index}][price]`
        throw invalidRequest(`No such price: '${id}'`, { code: 'resource_missing', param })
      })
      const data = of.payment_intent_data ?? of.subscription_data
      const page = {
        mode: of.mode,
        successUrl: of.success_url,
        cancelUrl: of.cancel_url ?? null,
        clientReferenceId: of.client_reference_id ?? null,
        metadata: of.metadata,
      }
      return openCheckout(world, account, page, {
        lines,
        metadata: data?.metadata ?? {},
        applicationFeeAmount: of.payment_intent_data?.application_fee_amount ?? null,
        applicationFeePercent: of.subscription_data?.application_fee_percent ?? null,
      })
    },
  ),
  route('POST', '/v1/checkout/sessions/:id/expire', {}, ({ world, account, id }) =>
    expireSession(world, needOwned(world, account, world.sessions, 'checkout.session', id)),
  ),

  one('/v1/payment_intents', 'payment_intent', (world) => world.paymentIntents),
  one('/v1/charges', 'charge', (world) => world.charges),
  listing(
    '/v1/charges',
    (world) => world.charges,
    {},
    () => true,
  ),
  one('/v1/refunds', 'refund', (world) => world.refunds),
  byCharge('/v1/refunds', (world) => world.refunds),
  one('/v1/disputes', 'dispute', (world) => world.disputes),
  byCharge('/v1/disputes', (world) => world.disputes),

  // Fees belong to the platform, so a call with a Stripe-Account header finds none.
  byCharge(fees, (world) => world.applicationFees),
  route('GET', `${fees}/:id/refunds`, paging, ({ world, account, id }, how) => {
    const fee = needOwned(world, account, world.applicationFees, 'application_fee', id)
    return page(fee.refunds.url, how, fee.refunds.data)
  }),
  route(
    'POST',
    `${fees}/:id/refunds`,
    { amount: integer(1).optional(), metadata },
    ({ world, account, id }, how) => {
      const fee = needOwned(world, account, world.applicationFees, 'application_fee', id)
      return refundFee(world, fee, how.amount, how.metadata)
    },
  ),

  route(
    'POST',
    '/v1/billing_portal/sessions',
    { customer: text, return_url: webUrl.optional() },
    ({ world, account }, { customer, return_url: returnUrl }) =>
      openPortal(world, account, customer, returnUrl ?? null),
  ),

  one('/v1/subscriptions', 'subscription', (world) => world.subscriptions),
  route('GET', '/v1/subscription_items', { ...paging, subscription: text }, ({ world, account }, how) => {
    const { items } = needOwned(world, account, world.subscriptions, 'subscription', how.subscription)
    return page(items.url, how, items.data)
  }),
  one('/v1/invoices', 'invoice', (world) => world.invoices),
  route('GET', '/v1/invoices/:id/lines', paging, ({ world, account, id }, how) => {
    const { lines } = needOwned(world, account, world.invoices, 'invoice', id)
    return page(lines.url, how, lines.data)
  }),
  one('/v1/invoice_payments', 'invoice_payment', (world) => world.invoicePayments),
  listing(
    '/v1/invoice_payments',
    (world) => world.invoicePayments,
    {
      invoice: text.optional(),
      payment: z.strictObject({ type: z.literal('payment_intent'), payment_intent: text }).optional(),
    },
    (each, { invoice, payment }) =>
      (invoice === undefined || each.invoice === invoice) &&
      (payment === undefined || each.payment.payment_intent === payment.payment_intent),
  ),

  route('GET', '/v1/events', { ...paging, types: listOf(text).optional() }, ({ world, account }, how) => {
    const { types } = how
    if ((types?.length ?? 0) > 20) throw invalidRequest('At most 20 types.', { param: 'types' })
    const found = list(world, account, world.events, ({ type }) => types?.includes(type) ?? true)
    const listed = page('/v1/events', how, found)
    return {
      ...listed,
      data: listed.data.map((event) => eventAsOfVersion(settingsOf(world, account).apiVersion, event)),
    }
  }),

  // The simulator sends no events to this endpoint: they go to the URL of its own setting.
  route(
    'POST',
    '/v1/webhook_endpoints',
    { url: webUrl, enabled_events: listOf(text), api_version: text.optional(), connect: flag.default(false) },
    ({ world }, of): WebhookEndpoint => ({
      id: newId('we'),
      object: 'webhook_endpoint',
      api_version: of.api_version ?? null,
      // An endpoint for events of connected accounts has an application.
      application: of.connect ? platformApplication : null,
      created: world.now,
      description: null,
      enabled_events: of.enabled_events,
      livemode: false,
      metadata: {},
      secret: newId('whsec'),
      status: 'enabled',
      url: of.url,
    }),
  ),
]
