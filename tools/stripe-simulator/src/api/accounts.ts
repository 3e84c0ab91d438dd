import { connectedAccount } from '../objects/account.ts'
import { isConnected } from '../flows/connect-account.ts'
import { noAccess } from './authenticate.ts'
import type { Call } from './call.ts'
import { noParameters } from './parameters.ts'

export function getAccount({ world, id, params }: Call): object {
  params.accept(noParameters)
  if (!isConnected(world, id)) throw noAccess(id)
  return connectedAccount(id)
}

export function getCurrentAccount({ account, params }: Call): object {
  params.accept(noParameters)
  return connectedAccount(account ?? 'acct_simPlatform')
}
