import { createTestDatabase } from '@licensing/test-support/database'
import { once } from 'node:events'
import { connect as connectTo, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { connect } from './connect.ts'
import type { Statement, Transaction } from './connect.ts'
import { isDatabaseUnavailable } from './problems.ts'
import { sendTogether } from './send-together.ts'
import { sendAlong, transaction } from './transaction.ts'

const database = await createTestDatabase()
const sql = connect(database.url, { name: 'transactions', max: 4 })
await sql`create table counter (id int primary key, value int not null default 0)`
beforeEach(() => sql`truncate counter`)
afterAll(async () => {
  await sql.end()
  await database[Symbol.asyncDispose]()
})

test.for([
  ['waited for', async (_tx: Transaction, statement: Statement) => void (await statement)],
  ['sent along', sendAlong],
] as const)(
  'transactions that deadlock in a statement %s are tried again, and all end committed',
  async ([, send]) => {
    await sql`insert into counter values (1), (2)`
    const add = (first: number, second: number) =>
      transaction(sql, async (tx) => {
        await tx`update counter set value = value + 1 where id = ${first}`
        await tx`select pg_sleep(0.01)`
        await send(tx, tx`update counter set value = value + 1 where id = ${second}`)
      })
    for (let round = 0; round < 3; round += 1) await Promise.all([add(1, 2), add(2, 1)])
    const rows = await sql<{ value: number }[]>`select value from counter`
    expect(rows.map((row) => row.value)).toEqual([6, 6])
  },
)

test('an error of the work rolls the transaction back and is thrown to the caller', async () => {
  const work = transaction(sql, async (tx) => {
    await tx`insert into counter values (1)`
    throw new Error('no')
  })
  await expect(work).rejects.toThrow('no')
  expect(await sql`select id from counter`).toHaveLength(0)
})

test('a statement that fails rolls the transaction back, even if the work continues', async () => {
  const work = transaction(sql, async (tx) => {
    await tx`insert into counter values (1)`
    await tx`insert into counter values (1)`.catch(() => {})
  })
  await expect(work).rejects.toThrow('rolled back')
  expect(await sql`select id from counter`).toHaveLength(0)
})

test('a statement that comes after the end of its transaction is refused', async () => {
  const inserted = Promise.withResolvers<void>()
  let late: Promise<unknown> = Promise.resolve()
  const work = transaction(sql, async (tx) => {
    late = inserted.promise.then(() => tx`insert into counter values (2)`)
    await tx`insert into counter values (1)`
    throw new Error('no')
  })
  await expect(work).rejects.toThrow('no')
  inserted.resolve()
  await expect(late).rejects.toMatchObject({ code: 'CONNECTION_RELEASED' })
  expect(await sql`select id from counter`).toHaveLength(0)
})

test.for([
  ['rolled back', () => Promise.reject(new Error('no'))],
  ['committed', () => Promise.resolve()],
] as const)('a statement that comes while its transaction is %s is refused', async ([ending, end]) => {
  for (const id of [1, 2, 3]) {
    let late: Promise<unknown> = Promise.resolve()
    const work = transaction(sql, (tx) => {
      // The work ends while this branch continues.
      late = tx`select pg_sleep(0.02)`
        .then(() => tx`insert into counter values (${id})`)
        .catch((error: unknown) => error)
      return end()
    })
    if (ending === 'committed') await work
    else await expect(work).rejects.toThrow('no')
    expect(await late).toMatchObject({ code: 'CONNECTION_RELEASED' })
  }
  expect(await sql`select id from counter`).toHaveLength(0)
})

test('a transaction whose BEGIN takes too long changes nothing', async () => {
  const url = new URL(database.url)
  await using proxy = await startStallingProxy(url.host, 'begin', 500)
  url.port = String(proxy.port)
  const stalled = connect(url.href, { name: 'stalled', max: 1, statementTimeoutMs: 200 })
  await stalled`select 1`
  const startedMs = performance.now()
  const work = transaction(stalled, (tx) => tx`insert into counter values (1)`)
  const outcome = await work.then(
    () => 'committed',
    () => 'failed',
  )
  expect(performance.now() - startedMs).toBeGreaterThan(450)
  expect(await stalled`select id from counter`).toHaveLength(outcome === 'committed' ? 1 : 0)
  await stalled.end()
})

test('a transaction whose connection is lost changes nothing, and the pool still works', async () => {
  const cut = connect(database.url, { name: 'lost', max: 1 })
  const work = transaction(cut, async (tx) => {
    await tx`insert into counter values (1)`
    const [row] = await tx<{ pid: number }[]>`select pg_backend_pid() as pid`
    await sql`select pg_terminate_backend(${row!.pid}, 5000)`
    await tx`insert into counter values (2)`
  })
  await expect(work).rejects.toSatisfy(isDatabaseUnavailable)
  expect(await cut`select id from counter`).toHaveLength(0)
  await transaction(cut, (tx) => tx`insert into counter values (3)`)
  expect(await cut`select id from counter`).toEqual([{ id: 3 }])
  await cut.end()
})

test('a wait for a lock ends after its limit with an error that counts as temporary', async () => {
  const limited = connect(database.url, { name: 'limited', max: 1, lockTimeoutMs: 50 })
  await sql`insert into counter values (1)`
  await transaction(sql, async (tx) => {
    await tx`select id from counter for update`
    await expect(limited`delete from counter`).rejects.toSatisfy(isDatabaseUnavailable)
  })
  await limited.end()
})

test('sendAlong does not wait for its statement, which commits with the transaction', async () => {
  await sql`insert into counter values (1)`
  const locking = Promise.withResolvers<void>()
  const locked = Promise.withResolvers<void>()
  const other = transaction(sql, async (tx) => {
    await tx`select from counter for update`
    locked.resolve()
    await locking.promise
  })
  await locked.promise
  const sent = Promise.withResolvers<void>()
  const work = transaction(sql, async (tx) => {
    await sendAlong(tx, tx`update counter set value = 1`)
    // The statement waits for the lock, but the work continues.
    sent.resolve()
  })
  await sent.promise
  expect(await sql`select value from counter`).toEqual([{ value: 0 }])
  locking.resolve()
  await Promise.all([other, work])
  expect(await sql`select value from counter`).toEqual([{ value: 1 }])
})

test.for(['nothing', 'another statement'])(
  'a statement of sendAlong that fails rolls the transaction back with its own error if %s follows',
  async (following) => {
    await sql`insert into counter values (1)`
    const work = transaction(sql, async (tx) => {
      await tx`insert into counter values (2)`
      await sendAlong(tx, tx`insert into counter values (1)`)
      if (following !== 'nothing') await tx`insert into counter values (3)`
    })
    await expect(work).rejects.toMatchObject({ constraint_name: 'counter_pkey' })
    expect(await sql`select id from counter`).toEqual([{ id: 1 }])
  },
)

test('outside of a transaction sendAlong waits for its statement', async () => {
  await expect(sendAlong(sql, sql`select from nowhere`)).rejects.toThrow('nowhere')
})

test('statements sent together run in their order, both before and after they are prepared', async () => {
  const connection = await sql.reserve()
  for (const id of [1, 2, 3]) {
    await sendTogether(
      connection`begin`,
      connection`select set_config('test.value', ${`${id}0`}, true)`,
      connection`insert into counter select ${id}::int, current_setting('test.value')::int`,
      connection`commit`,
    )
  }
  connection.release()
  const rows = await sql`select id, value from counter order by id`
  expect(rows).toEqual([1, 2, 3].map((id) => ({ id, value: id * 10 })))
})

test('if a statement sent together with others fails, all end before its error is thrown, and a later commit does not commit', async () => {
  await sql`insert into counter values (1)`
  const connection = await sql.reserve()
  await sendTogether(connection`begin`, connection`insert into counter values (2)`)
  const ending = sendTogether(connection`insert into counter values (1)`, connection`commit`)
  await expect(ending).rejects.toMatchObject({ constraint_name: 'counter_pkey' })
  expect(await connection`select id from counter`).toEqual([{ id: 1 }])
  connection.release()
  expect(await sql`select id from counter`).toEqual([{ id: 1 }])
})

/** A proxy for PostgreSQL that stalls for this time in the middle of the first bytes that contain a word. */
async function startStallingProxy(target: string, word: string, stallMs: number) {
  const { hostname, port } = new URL(`tcp://${target}`)
  const sockets: Socket[] = []
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connectTo({ host: hostname, port: Number(port), noDelay: true })
    sockets.push(client, upstream)
    let isOver = false
    client.on('error', () => upstream.destroy()).on('close', () => upstream.destroy())
    upstream.on('error', () => client.destroy()).pipe(client)
    client.on('data', (bytes: Buffer) => {
      const at = bytes.indexOf(word)
      if (isOver || at < 0) return void upstream.write(bytes)
      isOver = true
      // Passes the end of the word's message, and a part of the next message.
      const cut = at + word.length + 4
      client.pause()
      upstream.write(bytes.subarray(0, cut))
      setTimeout(() => {
        upstream.write(bytes.subarray(cut))
        client.resume()
      }, stallMs)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
