import { authorize, deauthorize } from '../flows/connect-account.ts'
import { expireSession } from '../flows/expire-session.ts'
import { findAnywhere } from '../flows/find.ts'
import { failSession, paySession } from '../flows/pay-session.ts'
import { connectedAccount } from '../objects/account.ts'
import type { Action } from './action.ts'
import { chargeActions } from './charge-actions.ts'
import { setPrice } from './set-price.ts'
import { setSettings } from './set-settings.ts'
import { subscriptionActions } from './subscription-actions.ts'

export const actions: Record<string, Action> = {
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
