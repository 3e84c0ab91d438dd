import { natsAccounts } from '@licensing/proto/nats-accounts'

/** Of a user of the servers that tests start. */
export function natsPasswordOf(user: string): string {
  return `password-of-${user}`
}

/** The accounts of production; connections without a user are the operator's. */
export const natsTestConfiguration = `${natsAccounts(natsPasswordOf)}no_auth_user: operator\n`
