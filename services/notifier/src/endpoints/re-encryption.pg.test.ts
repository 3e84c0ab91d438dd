import { randomBytes } from 'node:crypto'
import { decrypt, encrypt, isUnderCurrentKey, parseEncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { listSecrets, replaceSecret, secretColumns } from './endpoint-queries.ts'

const newKey = () => randomBytes(32).toString('base64url')

// operations.pg.test.ts changes the key of a notifier.
test.each(secretColumns)(
  'every %s is encrypted with a new key, unless its key is missing or it was changed meanwhile',
  async (column) => {
    await using database = await givenDatabase()
    const { sql } = database
    const [former, next, other] = [newKey(), newKey(), newKey()]
    const [old, both] = [parseEncryptionKeys(former), parseEncryptionKeys(`${next},${former}`)]
    const ids = ['whe_1', 'whe_2', 'whe_disabled']
    for (const id of ids) {
      const secret = encrypt(`whsec_${id}`, id, old)
      await sql`
      insert into endpoints (id, account_id, application_id, url, encrypted_secret, former_secret, former_secret_until,
        header_names, encrypted_headers, created_at)
      values (${id}, 'acct_1', 'app_1', 'https://example.com/', ${secret}, ${secret}, now(), array['X-Key'],
        ${secret}, now())`
    }
    await sql`
    update endpoints set status = 'disabled', disabled_at = now(), disabled_reason = 'deleted'
    where id = 'whe_disabled'`
    const table = {
      list: (afterId: string, limit: number) => listSecrets(sql, column, afterId, limit),
      replace: (id: string, was: Uint8Array, now: Buffer) => replaceSecret(sql, column, id, was, now),
    }
    const missing = await reEncryptTables([table], parseEncryptionKeys(other), 1_000)
    expect(missing).toMatchObject({ reEncrypted: 0, unreadable: 3 })
    const racing = {
      ...table,
      list: async (afterId: string, limit: number) => {
        const rows = await table.list(afterId, limit)
        await replaceSecret(sql, column, 'whe_1', rows[0]!.secret, encrypt('whsec_rotated', 'whe_1', both))
        return rows
      },
    }
    expect(await reEncryptTables([racing], both, 1_000)).toMatchObject({ reEncrypted: 2, done: true })
    const rows = await listSecrets(sql, column, '', 10)
    for (const { secret } of rows) expect(isUnderCurrentKey(secret, both)).toBe(true)
    expect(rows.map(({ id, secret }) => decrypt(secret, id, both))).toEqual([
      'whsec_rotated',
      'whsec_whe_2',
      'whsec_whe_disabled',
    ])
  },
)
