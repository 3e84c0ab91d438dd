import type { PageRequest } from '@licensing/database/page'
import { pageOf } from '@licensing/database/page'
import { listAllAccounts } from '../accounts/account-queries.ts'
import { listKeyRows } from '../api-keys/api-key-queries.ts'
import { listApplicationRows } from '../applications/application-queries.ts'
import type { Command } from './command.ts'

export const list: Command = {
  synopsis: '',
  summary: 'lists accounts with their applications and keys, one JSON line per account',
  options: {},
  async run({ sql }) {
    const lines: string[] = []
    for (const account of await listAllAccounts(sql)) {
      const apps = await allOf((page) => listApplicationRows(sql, account.id, page, undefined))
      const keys = await allOf((page) => listKeyRows(sql, account.id, page))
      lines.push(
        JSON.stringify({
          account_id: account.id,
          name: account.name,
          alert_email: account.alert_email,
          fee_bps: account.fee_bps,
          fee_fixed_minor: Number(account.fee_fixed_minor),
          apps: apps.map(({ id, name }) => ({ app_id: id, name })),
          keys: keys.map((key) => ({
            key_id: key.id,
            name: key.name,
            scopes: key.scopes,
            app_id: key.application_id,
            last_four: key.last_four,
            last_used_at: key.last_used_at,
            revoked_at: key.revoked_at,
          })),
        }),
      )
    }
    return lines
  },
}

async function allOf<Row extends { id: string }>(
  read: (page: PageRequest) => Promise<Row[]>,
): Promise<Row[]> {
  const all: Row[] = []
  for (;;) {
    const request = { limit: 200, beforeId: all.at(-1)?.id ?? '' }
    const { page, hasMore } = pageOf(await read(request), request.limit)
    all.push(...page)
    if (!hasMore) return all
  }
}
