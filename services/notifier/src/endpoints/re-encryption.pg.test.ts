import { randomBytes } from 'node:crypto'
import { decrypt, encrypt, isUnderCurrentKey, parseEncryptionKeys } from '@licensing/database/encryption'
import { reEncryptTables } from '@licensing/database/re-encryption'
import { connectTo } from '@licensing/grpc/client'
import { SecretsService } from '@licensing/proto/secrets'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { startProcesses } from '../../test/processes.ts'
import { listSecrets, replaceSecret } from './endpoint-queries.ts'

const newKey = () => randomBytes(32).toString('base64url')

test('secrets are encrypted with a new key while the notifier sends, and the old key can then be removed', async () => {
  await using receiver = await startHttpsReceiver()
  await using notifiers = await startProcesses({ receiver, count: 1 })
  const [process] = notifiers.processes
  for (let made = 0; made < 3; made += 1) await notifiers.register(receiver.url(`/${made}`))
  const ended = await notifiers.register(receiver.url('/ended'))
  await notifiers.calls.deleteEndpoint({ ...notifiers.of, endpointId: ended })
  const former = process!.environment['ENCRYPTION_KEY']!
  const next = newKey()
  await process!.start({ ENCRYPTION_KEY: `${next},${former}` })
  const channel = connectTo(SecretsService, process!.environment['GRPC_ADDRESS']!)
  const [answer] = await Promise.all([channel.calls.reEncrypt({}), notifiers.happen(5)])
  expect(answer).toMatchObject({ reEncrypted: 4, unreadable: 0, done: true })
  expect(await channel.calls.reEncrypt({})).toMatchObject({ reEncrypted: 0, done: true })
  channel.close()
  await process!.start({ ENCRYPTION_KEY: next })
  await notifiers.happen(2)
  await eventually(async () => expect(await notifiers.countOf('delivered')).toBe(21))
  expect(await process!.log()).not.toContain('cannot be decrypted')

  const [old, both] = [parseEncryptionKeys(former), parseEncryptionKeys(`${former},${next}`)]
  const table = {
    list: (afterId: string, limit: number) => listSecrets(notifiers.sql, afterId, limit),
    replace: (id: string, was: Uint8Array, now: Buffer) => replaceSecret(notifiers.sql, id, was, now),
  }
  // Without the key no secret is overwritten.
  expect(await reEncryptTables([table], old, 1_000)).toMatchObject({ reEncrypted: 0, unreadable: 4 })
  // If a secret is rotated between reading and writing, the rotated secret stays.
  const [first] = await listSecrets(notifiers.sql, '', 1)
  const rotated = encrypt('whsec_rotated', first!.id, both)
  const racing = {
    ...table,
    list: async (afterId: string, limit: number) => {
      const rows = await table.list(afterId, limit)
      await replaceSecret(notifiers.sql, first!.id, first!.secret, rotated)
      return rows
    },
  }
  expect(await reEncryptTables([racing], both, 1_000)).toMatchObject({ reEncrypted: 3, done: true })
  const rows = await listSecrets(notifiers.sql, '', 10)
  for (const { secret } of rows) expect(isUnderCurrentKey(secret, both)).toBe(true)
  expect(decrypt(rows[0]!.secret, first!.id, both)).toBe('whsec_rotated')
})
