import { natsAccounts } from './nats-accounts.ts'

const root = new URL('../..', import.meta.url)
const origin = '# Generated from proto/src/nats-rights.ts by `pnpm --filter @licensing/proto generate`.'

/** The files in `deploy/` that contain the accounts. The servers read the passwords from their environment. */
export function natsFiles(): { file: URL; text: string }[] {
  const accounts = `${origin}\n${natsAccounts((user) => `$NATS_${user.toUpperCase()}_PASSWORD`)}`
  const indented = accounts.replace(/^(?=.)/gm, '    ')
  const configMap = `apiVersion: v1
kind: ConfigMap
metadata:
  name: nats-accounts
data:
  nats-accounts.conf: |
${indented}`
  return [
    { file: new URL('deploy/compose/nats-accounts.conf', root), text: accounts },
    { file: new URL('deploy/kubernetes/overlays/trial/nats-accounts.yaml', root), text: configMap },
  ]
}
