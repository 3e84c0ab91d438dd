import { revokeKey } from '../api-keys/revoke-api-key.ts'
import type { Command } from './command.ts'
import { Refusal } from './command.ts'

export const revoke: Command = {
  synopsis: 'KEY_ID',
  summary: 'revokes an API key; it is refused within 2 seconds',
  options: {},
  positionals: ['KEY_ID'],
  async run({ sql }, given) {
    const keyId = given.KEY_ID!
    if (!(await revokeKey(sql, 'any account', keyId))) throw new Refusal(`there is no API key ${keyId}`)
    return [JSON.stringify({ key_id: keyId, revoked: true })]
  },
}
