import { natsAccounts } from '@licensing/proto/nats-accounts'

/** The password of a NATS user in tests. */
export function natsPasswordOf(user: string): string {
  return `password-of-${user}`
}

/** The accounts of production. Connections without a user are the operator. */
export const natsTestConfiguration = `${natsAccounts(natsPasswordOf)}no_auth_user: operator\n`
