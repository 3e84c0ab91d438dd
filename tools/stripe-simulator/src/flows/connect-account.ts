import { impossible } from '../http/stripe-error.ts'
import { platform } from '../objects/account.ts'
import type { World } from '../world/world.ts'

/** Any `acct_…` is, but `acct_missing…` and those that are deauthorized. */
export function isConnected(world: World, account: string): boolean {
  return /^acct_(?!missing)./.test(account) && !world.deauthorized.has(account)
}

/** The vendor disconnects the platform: its keys do not reach the account any more. */
export function deauthorize(world: World, account: string): void {
  if (world.deauthorized.has(account)) throw impossible(`${account} is not connected`)
  world.deauthorized.add(account)
  world.emitter.emit(account, 'account.application.deauthorized', platform())
}

export function authorize(world: World, account: string): void {
  if (!world.deauthorized.delete(account)) throw impossible(`${account} is connected already`)
  world.emitter.emit(account, 'account.application.authorized', platform())
}
