import { connect } from '@licensing/database/connect'
import { failWrites } from '@licensing/test-support/failing-writes'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { mountSmallDisk } from '@licensing/test-support/small-disk'
import { chownSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { ConsumerOptions } from './consumer-options.ts'
import { connectNats } from './connection.ts'
import { partitionOf } from './partitions.ts'
import { startRelay } from './relay.ts'
import { recordEffects } from './testing/effects.ts'
import { byAccount, consume, effectsOf, givenServers, log, upTo, whenChanged } from './testing/given.ts'

/** A sender and a consumer. */
async function givenConsumer(serverUrl?: string) {
  await using started = new AsyncDisposableStack()
  const given = started.use(await givenServers(serverUrl))
  const open = async (user: 'licensing' | 'notifier') =>
    started.adopt(await connectNats(given.server.urlOf(user), user, log), (nats) => nats.close())
  const [sender, receiver] = [await open('licensing'), await open('notifier')]
  const relay = startRelay({ sql: given.sql, nats: sender, source: 'licensing', streamReplicas: 1, log })
  started.defer(() => relay.stop())
  const running = started.move()
  return {
    sql: given.sql,
    /** Starts the consumer. */
    start: (options: Partial<ConsumerOptions> = {}) => {
      const consumer = consume({ sql: given.sql, nats: receiver, ...options })
      running.defer(() => consumer.stop())
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

const deadLetters = async (sql: Awaited<ReturnType<typeof givenConsumer>>['sql']) =>
  sql`select event_id, error from dead_letters`

// An event that fails with a permanent error becomes a dead letter at its fifth try.
const deadAfter = 5

// One for each partition, so that none waits for another one.
const states = ['53100', '53200', '58030', '25006', '40001', '42P01', '55000', 'XX000']
const accounts = states.map((_, partition) =>
  upTo(1_000)
    .map((at) => `acct_${at}`)
    .find((account) => partitionOf(account) === partition)!,
)

test('events wait for a server without space, memory or the right tables: none becomes a dead letter or is overtaken', async () => {
  await using given = await givenConsumer()
  const { sql } = given
  const faults = await Promise.all(
    states.map((state, at) => failWrites(sql, 'effects', state, `new.account_id = '${accounts[at]}'`)),
  )
  for (const account of accounts) await whenChanged(sql, account, 1, 3)
  given.start()
  await eventually(async () => {
    const refused = await Promise.all(faults.map((fault) => fault.refused()))
    expect(Math.min(...refused)).toBeGreaterThan(deadAfter)
  })
  expect(await deadLetters(sql)).toEqual([])
  for (const fault of faults) await fault.end()
  await eventually(async () => {
    const expected = Object.fromEntries(accounts.map((account) => [account, upTo(3)]))
    expect(byAccount(await effectsOf(sql))).toEqual(expected)
  })
  expect(await deadLetters(sql)).toEqual([])
})

test('on a full disk events wait, and are consumed in order when there is space', async ({ skip }) => {
  await using server = await startOwnPostgres()
  const admin = connect(server.url(), { name: 'admin', max: 1 })
  const [row] = await admin<{ folder: string }[]>`select current_setting('data_directory') as folder`
  using disk = mountSmallDisk(1)
  if (!disk) return skip('a file system can be mounted only by root')
  const folder = join(disk.folder, 'tables')
  mkdirSync(folder)
  const { uid } = statSync(row!.folder)
  chownSync(folder, uid, uid)
  await admin.unsafe(`create tablespace small location '${folder}'`)
  await using given = await givenConsumer(server.url())
  const { sql } = given
  await sql`create table fillings (filling text not null) tablespace small`
  await sql`alter table effects set tablespace small`
  // An effect needs a fifth of a page.
  await sql`alter table effects add column padding text not null default repeat('x', 1500)`
  const fill = async () => {
    for (;;) await sql`insert into fillings select repeat('y', 1900) from generate_series(1, 4)`
  }
  await expect(fill()).rejects.toMatchObject({ code: '53100' })
  await whenChanged(sql, 'acct_1', 1, 40)
  const failures: unknown[] = []
  given.start({
    handle: async (tx, events) =>
      recordEffects(tx, events).catch((error: unknown) => {
        failures.push(error)
        throw error
      }),
  })
  await eventually(() => failures.length > deadAfter)
  expect(failures[0]).toMatchObject({ code: '53100' })
  expect(await deadLetters(sql)).toEqual([])
  await sql`drop table fillings`
  await eventually(async () => expect(await effectsOf(sql)).toHaveLength(40))
  expect(byAccount(await effectsOf(sql))).toEqual({ acct_1: upTo(40) })
  expect(await deadLetters(sql)).toEqual([])
  await admin.end()
})
