import { transaction } from '@licensing/database/transaction'
import { closedSets } from '@licensing/proto/closed-sets'
import { mintKey } from '../api-keys/create-api-key.ts'
import type { Command } from './command.ts'

export const createKey: Command = {
  synopsis: `--account ACCOUNT_ID --name NAME --scopes ${closedSets.scope.join(',')} [--app APP_ID]`,
  summary: 'creates an API key, with --app for one application only; prints the key once',
  options: {
    account: { required: true },
    name: { required: true },
    scopes: { required: true },
    app: { required: false },
  },
  async run({ sql }, given) {
    const { row, key } = await transaction(sql, (tx) =>
      mintKey(tx, {
        accountId: given.account!,
        name: given.name!,
        scopes: given.scopes!.split(',').map((scope) => scope.trim()),
        applicationId: given.app,
      }),
    )
    return [JSON.stringify({ key_id: row.id, key })]
  },
}
