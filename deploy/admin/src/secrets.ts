import { CatalogService } from '@licensing/proto/catalog'
import { RootKeyService } from '@licensing/proto/root-keys'
import { SecretsService } from '@licensing/proto/secrets'
import { Refusal, servicesOf, UsageError } from './command.ts'
import type { Command } from './command.ts'

/** The services that store secrets. */
const keepers = ['licensing', 'notifier'] as const
const timeoutMs = 55_000

/** `licensing-admin re-encrypt`: encrypts the secrets of the services with the first key of their `ENCRYPTION_KEY`. */
export const reEncrypt: Command = {
  synopsis: '[--service licensing|notifier]',
  summary:
    'encrypts all secrets again with the first key of ENCRYPTION_KEY; set NEW,OLD on all replicas first, remove OLD afterwards',
  options: { service: { required: false } },
  async run({ callsOf }, { service }) {
    const lines: object[] = []
    for (const name of servicesOf(keepers, service)) {
      const calls = callsOf(name, SecretsService)
      let reEncrypted = 0
      let keyId: string | undefined
      for (let done = false; !done;) {
        const answer = await calls.reEncrypt({}, { timeoutMs })
        if (keyId !== undefined && keyId !== answer.keyId) {
          throw new Refusal(`replicas of ${name} encrypt with different keys: restart all with NEW,OLD first`)
        }
        keyId = answer.keyId
        reEncrypted += answer.reEncrypted
        done = answer.done
        if (answer.unreadable > 0) {
          throw new Refusal(
            `${answer.unreadable} secrets of ${name} are encrypted with a key that is not in its ENCRYPTION_KEY`,
          )
        }
      }
      lines.push({ service: name, key_id: keyId, re_encrypted: reEncrypted })
    }
    return lines
  },
}

/** `licensing-admin rotate-root-key`: replaces the root key that is compiled into products. */
export const rotateRootKey: Command = {
  synopsis: '--app APP_ID [--retire [--force]]',
  summary:
    'adds a root key, to compile into new releases of the product beside the old one; --retire ends the older keys, earliest 180 days after the rotation unless --force',
  options: { app: { required: true } },
  flags: ['retire', 'force'],
  async run({ callsOf }, { app = '', retire, force }) {
    if (force !== undefined && retire === undefined) throw new UsageError('--force goes with --retire')
    const owner = await callsOf('catalog', CatalogService).findApplicationOwner({ applicationId: app })
    const request = { accountId: owner.accountId, applicationId: app }
    const rootKeys = callsOf('licensing', RootKeyService)
    const { rootKey, current, retired } =
      retire === undefined
        ? await rootKeys.rotateRootKey(request)
        : await rootKeys.retireRootKeys({ ...request, force: force !== undefined })
    return [{ app_id: app, root_key: rootKey, current, retired }]
  },
}
