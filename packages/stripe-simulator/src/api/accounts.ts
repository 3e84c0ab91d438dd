import { connectedAccount } from '../objects/account.ts'
import { noAccess } from './authenticate.ts'
import type { Call } from './call.ts'

export function getAccount({ world, id, params }: Call): object {
  params.only()
  if (!id.startsWith('acct_') || world.deauthorized.has(id)) throw noAccess(id)
  return connectedAccount(id)
}

export function getCurrentAccount({ account, params }: Call): object {
  params.only()
  return connectedAccount(account ?? 'acct_simPlatform')
}
