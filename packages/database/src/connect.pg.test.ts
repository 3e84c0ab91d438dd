import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { once } from 'node:events'
import { createConnection, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterAll, expect, test } from 'vitest'
import { connect, oneConnection } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'

const database = await createTestDatabase()
const others = connect(database.url, { name: 'other', max: 1 })
afterAll(async () => {
  await others.end()
  await database[Symbol.asyncDispose]()
})

test('every session of a pool has the pool’s limits and settings', async () => {
  const sql = connect(database.url, {
    name: 'settings',
    statementTimeoutMs: 1_234,
    lockTimeoutMs: 567,
    settings: { plan_cache_mode: 'force_custom_plan' },
  })
  const other = oneConnection(sql, { plan_cache_mode: 'force_generic_plan' })
  const settings = (of: typeof sql) => of`
    select current_setting('application_name') as name, current_setting('statement_timeout') as statement,
      current_setting('lock_timeout') as lock, current_setting('plan_cache_mode') as plans`
  const expected = { name: 'settings', statement: '1234ms', lock: '567ms', plans: 'force_custom_plan' }
  expect(await settings(sql)).toEqual([expected])
  expect(await settings(other)).toEqual([{ ...expected, plans: 'force_generic_plan' }])
  await sql.end()
  await other.end()
})

test('the error of a session that the server ended because its transaction was idle counts as unavailable', async () => {
  const settings = { idle_in_transaction_session_timeout: '50ms' }
  const sql = connect(database.url, { name: 'idle', settings })
  const ended = async () => {
    const rows = await others`select 1 from pg_stat_activity where application_name = 'idle'`
    expect(rows).toHaveLength(0)
  }
  const work = sql.begin(async (tx) => {
    await tx`select 1`
    await eventually(ended)
    await tx`select 2`
  })
  await expect(work).rejects.toSatisfy(isDatabaseUnavailable)
  expect(await sql`select 3 as three`).toEqual([{ three: 3 }])
  await sql.end()
})

test('if a client stops in the middle of sending a statement, the server ends its transaction at the time limit and frees its locks', async () => {
  await others`create table shelves (id int primary key, books int not null)`
  await others`insert into shelves values (1, 0)`
  await using proxy = await startHalvingProxy(database.url)
  const sql = connect(proxy.url, {
    name: 'halved',
    settings: { idle_in_transaction_session_timeout: '50ms', transaction_timeout: '500ms' },
  })
  const work = sql.begin(async (tx) => {
    await tx`update shelves set books = 1`
    proxy.halve()
    await tx`update shelves set books = 2`
  })
  await expect(work).rejects.toSatisfy(isDatabaseUnavailable)
  await others`update shelves set books = 3`
  expect(await others`select books from shelves`).toEqual([{ books: 3 }])
  await sql.end()
})

/** A proxy. After `halve` it forwards half of the client's next message, and then nothing more. */
async function startHalvingProxy(databaseUrl: string) {
  const target = new URL(databaseUrl)
  let state: 'whole' | 'half' | 'nothing' = 'whole'
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = createConnection(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}))
    upstream.pipe(client)
    client.on('data', (chunk: Buffer) => {
      if (state === 'nothing') return
      upstream.write(state === 'half' ? chunk.subarray(0, chunk.length / 2) : chunk)
      if (state === 'half') state = 'nothing'
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = new URL(databaseUrl)
  url.host = `127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    url: url.href,
    halve: () => (state = 'half'),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.close()
      await once(server, 'close')
    },
  }
}
