import { findApplicationOfAnyAccount } from '../applications/application-queries.ts'
import type { Command } from './command.ts'
import { Refusal, UsageError } from './command.ts'

/** The root key that products have compiled in: `licensing-admin rotate-root-key`. */
export const rotateRootKey: Command = {
  synopsis: '--app APP_ID [--retire [--force]]',
  summary:
    'adds a root key, to compile into new releases of the product beside the old one; --retire ends the older keys, earliest 180 days after the rotation unless --force',
  options: { app: { required: true } },
  flags: ['retire', 'force'],
  async run({ sql, rootKeys }, { app = '', retire, force }) {
    if (force !== undefined && retire === undefined) throw new UsageError('--force goes with --retire')
    if (!(await findApplicationOfAnyAccount(sql, app))) throw new Refusal(`there is no application ${app}`)
    const { rootKey, current, retired } =
      retire === undefined
        ? await rootKeys().rotateRootKey({ applicationId: app })
        : await rootKeys().retireRootKeys({ applicationId: app, force: force !== undefined })
    return [JSON.stringify({ app_id: app, root_key: rootKey, current, retired })]
  },
}
