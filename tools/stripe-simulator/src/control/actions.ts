import { authorize, connectedAccount, deauthorize } from '../api/accounts.ts'
import { findAnywhere } from '../flows/find.ts'
import { expireSession } from '../flows/open-checkout.ts'
import { failSession, paySession } from '../flows/pay-session.ts'
import { Params } from '../http/params.ts'
import { invalidRequest, noSuch } from '../http/stripe-error.ts'
import { newPrice, type NewPrice } from '../objects/price.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { chargeActions } from './charge-actions.ts'
import type { Action } from './control.ts'
import { subscriptionActions } from './subscription-actions.ts'

const actions: Record<string, Action> = {
  'set-price': setPrice,
  settings: setSettings,
  pay: (world, params) => {
    params.only('session', 'method', 'email', 'discount')
    return paySession(world, params.required('session'), {
      method: params.oneOf('method', ['card', 'delayed']) ?? 'card',
      email: params.string('email') ?? 'buyer@example.com',
      discount: params.integer('discount') ?? 0,
    })
  },
  fail: (world, params) => {
    params.only('session', 'email')
    const email = params.string('email') ?? 'buyer@example.com'
    return failSession(world, params.required('session'), { method: 'card', email })
  },
  expire: (world, params) => {
    const id = params.only('session').required('session')
    const { account, object } = findAnywhere(world.sessions, 'checkout.session', id)
    return expireSession(world, account, object)
  },
  ...chargeActions,
  ...subscriptionActions,
  deauthorize: (world, params) => {
    const account = params.only('account').required('account')
    deauthorize(world, account)
    return connectedAccount(account)
  },
  authorize: (world, params) => {
    const account = params.only('account').required('account')
    authorize(world, account)
    return connectedAccount(account)
  },
}

/** Runs an action. Any action takes `created`, the time in Unix seconds at which it happens. */
export function runAction(world: World, name: string, values: unknown): object {
  const action = Object.hasOwn(actions, name) ? actions[name] : undefined
  if (action === undefined) throw noSuch('action', name)
  const { created, ...rest } = Object(values) as Record<string, unknown>
  const at = new Params({ created }).integer('created')
  const cause = { id: isDashboardAction(name, rest) ? newId('req') : null, idempotency_key: null }
  const { clock, emitter } = world
  const customer = customerOf(world, Object.values(rest))
  const run = (): object => emitter.causedBy(cause, () => action(world, new Params(rest)))
  return clock.of(customer, () => clock.during(at, run))
}

/** Actions that a vendor does in Stripe's dashboard. Stripe treats them as API calls. */
function isDashboardAction(name: string, { reason }: Record<string, unknown>): boolean {
  return name === 'refund' || (name === 'cancel' && reason !== 'payment_failed')
}

/** Finds the customer of an action by the id of any of the customer's objects. The action happens in the customer's time. */
function customerOf(world: World, ids: unknown[]): string | null {
  for (const id of ids) {
    if (typeof id !== 'string') continue
    const customer = customerBehind(world, id)
    if (customer) return customer
  }
  return null
}

function customerBehind(world: World, id: string): string | null | undefined {
  const chargeId =
    world.refunds.findAnywhere(id)?.object.charge ?? world.disputes.findAnywhere(id)?.object.charge ?? id
  return (
    world.subscriptions.findAnywhere(id)?.object.customer ??
    world.sessions.findAnywhere(id)?.object.customer ??
    world.invoices.findAnywhere(id)?.object.customer ??
    world.paymentIntents.findAnywhere(id)?.object.customer ??
    world.charges.findAnywhere(chargeId)?.object.customer
  )
}

/**
 * Creates a price with an id that the caller chooses, or updates it. It takes precedence over the price in a checkout's
 * metadata.
 */
function setPrice(world: World, params: Params): object {
  params.only('id', 'account', 'active', 'unit_amount', 'currency', 'recurring')
  const account = params.string('account') ?? null
  const id = params.required('id')
  const existing = world.prices.find(account, id)
  const price = newPrice({
    id,
    created: existing?.created ?? world.clock.now(),
    ...readMoney(params),
    product: existing?.product,
  })
  price.active = params.boolean('active') ?? true
  world.agreedPrices.forget(account, id)
  return world.prices.add(account, price)
}

function readMoney(params: Params): Pick<NewPrice, 'currency' | 'unitAmount' | 'recurring'> {
  const currency = params.required('currency')
  if (!/^[a-z]{3}$/.test(currency)) {
    throw invalidRequest(`Invalid currency: ${currency}. Three lower-case letters.`, { param: 'currency' })
  }
  const recurring = params.object('recurring')?.only('interval', 'interval_count')
  const interval = recurring?.oneOf('interval', ['day', 'week', 'month', 'year'])
  if (recurring !== undefined && interval === undefined) throw recurring.missing('interval')
  return {
    currency,
    unitAmount: params.requiredInteger('unit_amount'),
    recurring:
      interval === undefined
        ? null
        : { interval, intervalCount: recurring?.integer('interval_count', 1) ?? 1 },
  }
}

/** Changes the settings of an account, or of all accounts. */
function setSettings({ settings }: World, params: Params): object {
  params.only('account', 'capture', 'api_version', 'tax_percent')
  const capture = params.oneOf('capture', ['immediate', 'asynchronous'])
  const apiVersion = params.string('api_version')
  const taxPercent = params.integer('tax_percent')
  const account = params.string('account')
  settings.choose(account, {
    ...(capture !== undefined && { capture }),
    ...(apiVersion !== undefined && { apiVersion }),
    ...(taxPercent !== undefined && { taxPercent }),
  })
  return settings.of(account ?? null)
}
