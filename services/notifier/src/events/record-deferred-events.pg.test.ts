import { transaction } from '@licensing/database/transaction'
import { toBinary } from '@bufbuild/protobuf'
import { connect } from '@licensing/database/connect'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import type { Received } from '@licensing/events/consumer-options'
import { createLogger } from '@licensing/process/log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { notifierMigrations } from '../migrations.ts'
import { givenEvent } from '../../test/events.ts'
import { insertDeferred, nextDeferredAccount } from './deferred-event-queries.ts'
import { takeSequences } from './event-queries.ts'
import { startRecordingDeferred } from './record-deferred-events.ts'
import type { Recorded } from './record-events.ts'
import { deferExcessEvents } from './consume-events.ts'

const recorded = (send: () => void, deferred: string[] = []): Recorded => ({
  send,
  deferred: new Set(deferred),
})

test('accounts with deferred events are found without reading all deferred events', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const row = { account_id: newId('acct'), payload: new Uint8Array(200), trace_parent: null }
  const other = { ...row, account_id: newId('acct') }
  await insertDeferred(sql, [other])
  await insertDeferred(
    sql,
    Array.from({ length: 20_000 }, () => row),
  )
  await sql`analyze deferred_events`
  const free = newId('acct')
  const read = await sql.begin(async (tx) => {
    const wanted = new Map([row.account_id, other.account_id, free].map((account) => [account, 2]))
    expect(await takeSequences(tx, wanted, false)).toEqual(new Map([[free, 0n]]))
    // The account with many deferred events is skipped.
    expect(await nextDeferredAccount(tx, '', [row.account_id])).toBe(other.account_id)
    expect(await nextDeferredAccount(tx, '', [row.account_id, other.account_id])).toBeUndefined()
    expect(await nextDeferredAccount(tx, row.account_id, [])).toBe(other.account_id)
    const [table] = await tx<{ count: number }[]>`
      select (seq_tup_read + idx_tup_fetch)::int as count
      from pg_stat_xact_user_tables where relname = 'deferred_events'`
    return table!.count
  })
  expect(read).toBeLessThan(20)
  const both = new Map([
    [free, 2n],
    [row.account_id, 0n],
  ])
  expect(await takeSequences(sql, new Map([...both.keys()].map((account) => [account, 1])), true)).toEqual(
    both,
  )
})

test('events of accounts without deferred events are noticed', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  let others = 0
  const consume = async (tx: Transaction, received: Received[]) => {
    const accounts = [...new Set(received.map(({ event }) => event.accountId))]
    const sequences = await takeSequences(tx, new Map(accounts.map((account) => [account, 1])), false)
    return recorded(
      () => {},
      accounts.filter((account) => !sequences.has(account)),
    )
  }
  const share = deferExcessEvents(consume, { deferred: () => {}, others: () => (others += 1) })
  const [loud, quiet] = [newId('acct'), newId('acct')]
  const send = (...accounts: string[]) => {
    const value = { licenceId: newId('lic'), status: 'revoked' }
    const received = accounts.map((accountId) => {
      const event = givenEvent({
        accountId,
        applicationId: newId('app'),
        payload: { case: 'licenceRevoked', value },
      })
      return { event, payload: toBinary(EventSchema, event), traceParent: undefined }
    })
    return transaction(sql, (tx) => share(tx, received))
  }
  const many = Array.from({ length: 60 }, () => loud)
  await send(...many)
  await send(loud)
  expect(others).toBe(0)
  await send(...many, quiet)
  expect(others).toBe(1)
  await send(quiet)
  expect(others).toBe(2)
})

test('deferred events are recorded in small batches beside other events, with pauses while the consumers are behind, and at once afterwards', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const accountId = newId('acct')
  const value = { licenceId: newId('lic'), status: 'revoked' }
  const events = Array.from({ length: 1_200 }, () =>
    givenEvent({ accountId, applicationId: newId('app'), payload: { case: 'licenceRevoked', value } }),
  )
  const rows = events.map((event) => ({
    account_id: accountId,
    payload: toBinary(EventSchema, event),
    trace_parent: null,
  }))
  await insertDeferred(sql, rows)

  const turns: { ids: string[]; endedAt: number }[] = []
  const inTurns = () => turns.flatMap(({ ids }) => ids)
  let isBehind = true
  let isBesideOthers = false
  const recording = startRecordingDeferred({
    sql,
    consume: async (tx, received) => {
      await tx`select pg_sleep(0.02)`
      return recorded(() => {
        turns.push({ ids: received.map(({ event }) => event.id), endedAt: performance.now() })
      })
    },
    isTransient: () => true,
    isBehind: () => isBehind,
    hasOtherEvents: () => isBesideOthers,
    log: createLogger('test', 'silent'),
  })
  ending.defer(() => recording.stop())
  await eventually(() => {
    // Newly deferred events do not end a pause.
    recording.wake()
    expect(turns.length).toBeGreaterThanOrEqual(4)
  })
  const [first, , , fourth] = turns
  expect(Math.max(...turns.map(({ ids }) => ids.length))).toBe(50)
  expect(fourth!.endedAt - first!.endedAt).toBeGreaterThan(3 * 5 * 20)

  isBesideOthers = true
  isBehind = false
  const before = turns.length + 1
  await eventually(() => expect(turns.length).toBeGreaterThan(before + 5))
  expect(Math.max(...turns.slice(before).map(({ ids }) => ids.length))).toBe(20)

  isBesideOthers = false
  await eventually(() => expect(inTurns()).toHaveLength(1_200))
  expect(Math.max(...turns.map(({ ids }) => ids.length))).toBe(200)
  expect(inTurns()).toEqual(events.map(({ id }) => id))
})

test('an event that cannot be recorded is retried with growing pauses and never lost, and other accounts do not wait', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const eventOf = (accountId: string) =>
    givenEvent({
      accountId,
      applicationId: newId('app'),
      payload: { case: 'licenceRevoked', value: { licenceId: newId('lic'), status: 'revoked' } },
    })
  const put = (events: Event[]) =>
    insertDeferred(
      sql,
      events.map((event) => ({
        account_id: event.accountId,
        payload: toBinary(EventSchema, event),
        trace_parent: null,
      })),
    )
  const [stuckAccount, otherAccount] = [newId('acct'), newId('acct')].toSorted()
  const stuck = [eventOf(stuckAccount!), eventOf(stuckAccount!)]
  const others = Array.from({ length: 5 }, () => eventOf(otherAccount!))

  const failedAt: number[] = []
  const ids: string[] = []
  let isBroken = true
  const errors: unknown[] = []
  const error = (fields: unknown) => {
    errors.push(fields)
    failedAt.push(performance.now())
  }
  const log = createLogger('test', 'silent')
  const recording = startRecordingDeferred({
    sql,
    consume: async (tx, received) => {
      if (isBroken && received.some(({ event }) => event.id === stuck[0]!.id)) {
        // This takes longer than the first pause, and no other try may begin meanwhile.
        await tx`select pg_sleep(0.15)`
        await tx`select 1 / 0`
      }
      return recorded(() => ids.push(...received.map(({ event }) => event.id)))
    },
    isTransient: () => false,
    isBehind: () => false,
    hasOtherEvents: () => false,
    retry: { firstMs: 100, maxMs: 400 },
    log: Object.assign(Object.create(log) as typeof log, { error }),
  })
  ending.defer(() => recording.stop())
  const failingAccounts = async () => register.getSingleMetricAsString('events_deferred_failing_accounts')

  await put(stuck)
  recording.wake()
  await eventually(() => expect(failedAt.length).toBeGreaterThanOrEqual(1))
  await put(others)
  recording.wake()
  await eventually(() => expect(ids).toEqual(others.map(({ id }) => id)))
  expect(await failingAccounts()).toContain('events_deferred_failing_accounts 1')
  await eventually(() => {
    // Newly deferred events do not end a pause.
    recording.wake()
    expect(failedAt.length).toBeGreaterThanOrEqual(5)
  })
  const pauses = failedAt.slice(1).map((at, index) => at - failedAt[index]!)
  // Each is a pause plus the time of the try before it, which records both events and then the first event alone.
  const atLeast = [400, 500, 700, 700]
  atLeast.forEach((ms, index) => expect(pauses[index]).toBeGreaterThanOrEqual(ms - 1))
  expect(errors[0]).toMatchObject({ account_id: stuckAccount, event_id: stuck[0]!.id })

  isBroken = false
  await eventually(() => expect(ids.slice(others.length)).toEqual(stuck.map(({ id }) => id)))
  await eventually(async () =>
    expect(await failingAccounts()).toContain('events_deferred_failing_accounts 0'),
  )
})

test('an event that cannot be recorded is not tried twice at the same time', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  const sql = connect(database.url, { name: 'test' })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const accounts = Array.from({ length: 30 }, () => newId('acct'))
  const value = { licenceId: newId('lic'), status: 'revoked' }
  const rows = [...accounts, ...accounts].map((accountId) => {
    const payload = { case: 'licenceRevoked', value } as const
    const event = givenEvent({ accountId, applicationId: newId('app'), payload })
    return { account_id: accountId, payload: toBinary(EventSchema, event), trace_parent: null }
  })
  await insertDeferred(sql, rows)

  const tried = new Map<string, number>()
  const recording = startRecordingDeferred({
    sql,
    consume: async (tx, received) => {
      const { accountId } = received[0]!.event
      if (received.length === 1) tried.set(accountId, (tried.get(accountId) ?? 0) + 1)
      return tx`select 1 / 0`.then(() => recorded(() => {}))
    },
    isTransient: () => false,
    isBehind: () => false,
    hasOtherEvents: () => false,
    retry: { firstMs: 600_000, maxMs: 600_000 },
    log: createLogger('test', 'silent'),
  })
  ending.defer(() => recording.stop())
  await eventually(() => {
    recording.wake()
    expect(tried.size).toBe(accounts.length)
  })
  expect(new Set(tried.values())).toEqual(new Set([1]))
})

test('a retry that is due is not started by both loops', async () => {
  await using database = await createTestDatabase()
  await using ending = new AsyncDisposableStack()
  // With one connection, transactions run in the order in which they were begun.
  const sql = connect(database.url, { name: 'test', max: 1 })
  ending.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const accountId = newId('acct')
  const payload = { case: 'licenceRevoked', value: { licenceId: newId('lic'), status: 'revoked' } } as const
  const event = givenEvent({ accountId, applicationId: newId('app'), payload })
  const row = { account_id: accountId, payload: toBinary(EventSchema, event), trace_parent: null }
  await insertDeferred(sql, [row, row])

  const tried: number[] = []
  const recording = startRecordingDeferred({
    sql,
    consume: async (tx, received) => {
      tried.push(received.length)
      return tx`select 1 / 0`.then(() => recorded(() => {}))
    },
    isTransient: () => false,
    isBehind: () => false,
    hasOtherEvents: () => false,
    retry: { firstMs: 50, maxMs: 50 },
    log: createLogger('test', 'silent'),
  })
  ending.defer(() => recording.stop())
  await eventually(() => {
    recording.wake()
    expect(tried.length).toBeGreaterThanOrEqual(12)
  })
  // Each try records both events, and after it fails, the first event alone.
  expect(tried.slice(0, 12)).toEqual([2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])
})
