import { transaction } from '@licensing/database/transaction'
import { toBinary } from '@bufbuild/protobuf'
import type { ConnectOptions, Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import type { Received } from '@licensing/events/consumer-options'
import { createLogger } from '@licensing/process/log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { eventually } from '@licensing/test-support/poll'
import { register } from 'prom-client'
import { expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { givenLicenceEvent } from '../../test/events.ts'
import { insertDeferred, nextDeferredAccount } from './deferred-event-queries.ts'
import { takeSequences } from './event-queries.ts'
import { startRecordingDeferred } from './record-deferred-events.ts'
import type { Recorded } from './record-events.ts'
import { deferExcessEvents } from './consume-events.ts'

const log = createLogger('test', 'silent')

const recorded = (send: () => void, deferred: string[] = []): Recorded => ({
  send,
  deferred: new Set(deferred),
})

const givenEvents = (accountId: string, count = 1) =>
  Array.from({ length: count }, () => givenLicenceEvent({ accountId, applicationId: newId('app') }))

type Recording = Parameters<typeof startRecordingDeferred>[0]

/** A database in which events are deferred. */
async function given(options: Partial<ConnectOptions> = {}) {
  await using started = new AsyncDisposableStack()
  const { sql } = started.use(await givenDatabase(options))
  const running = started.move()
  return {
    sql,
    put: (events: Event[]) =>
      insertDeferred(
        sql,
        events.map((event) => ({
          account_id: event.accountId,
          payload: toBinary(EventSchema, event),
          trace_parent: null,
        })),
      ),
    /** Starts to record them. */
    start(recording: Pick<Recording, 'consume'> & Partial<Recording>) {
      const recorder = startRecordingDeferred({
        sql,
        isTransient: () => false,
        isBehind: () => false,
        hasOtherEvents: () => false,
        log,
        ...recording,
      })
      running.defer(() => recorder.stop())
      return recorder
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

test('accounts with deferred events are found without reading all deferred events', async () => {
  await using deferred = await given()
  const { sql, put } = deferred
  const [many, other, free] = [newId('acct'), newId('acct'), newId('acct')]
  await put(givenEvents(other))
  await put(givenEvents(many, 20_000))
  await sql`analyze deferred_events`
  const read = await sql.begin(async (tx) => {
    const wanted = new Map([many, other, free].map((account) => [account, 2]))
    expect(await takeSequences(tx, wanted, false)).toEqual(new Map([[free, 0n]]))
    // The account with many deferred events is skipped.
    expect(await nextDeferredAccount(tx, '', [many])).toBe(other)
    expect(await nextDeferredAccount(tx, '', [many, other])).toBeUndefined()
    expect(await nextDeferredAccount(tx, many, [])).toBe(other)
    const [table] = await tx<{ count: number }[]>`
      select (seq_tup_read + idx_tup_fetch)::int as count
      from pg_stat_xact_user_tables where relname = 'deferred_events'`
    return table!.count
  })
  expect(read).toBeLessThan(20)
  const asked = new Map([free, many].map((account) => [account, 1]))
  expect(await takeSequences(sql, asked, true)).toEqual(
    new Map([
      [free, 2n],
      [many, 0n],
    ]),
  )
})

test('events of accounts without deferred events are noticed', async () => {
  await using deferred = await given()
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
  const send = (...events: Event[]) => {
    const received = events.map((event) => ({
      event,
      payload: toBinary(EventSchema, event),
      traceParent: undefined,
    }))
    return transaction(deferred.sql, (tx) => share(tx, received))
  }
  await send(...givenEvents(loud, 60))
  await send(...givenEvents(loud))
  expect(others).toBe(0)
  await send(...givenEvents(loud, 60), ...givenEvents(quiet))
  expect(others).toBe(1)
  await send(...givenEvents(quiet))
  expect(others).toBe(2)
})

test('deferred events are recorded in small batches beside other events, with pauses while the consumers are behind, and at once afterwards', async () => {
  await using deferred = await given()
  const events = givenEvents(newId('acct'), 1_200)
  await deferred.put(events)

  const turns: { ids: string[]; endedAt: number }[] = []
  const inTurns = () => turns.flatMap(({ ids }) => ids)
  const longest = (from = 0) => Math.max(...turns.slice(from).map(({ ids }) => ids.length))
  let isBehind = true
  let isBesideOthers = false
  const recording = deferred.start({
    consume: async (tx, received) => {
      await tx`select pg_sleep(0.02)`
      return recorded(() => {
        turns.push({ ids: received.map(({ event }) => event.id), endedAt: performance.now() })
      })
    },
    isBehind: () => isBehind,
    hasOtherEvents: () => isBesideOthers,
  })
  await eventually(() => {
    // Newly deferred events do not end a pause.
    recording.wake()
    expect(turns.length).toBeGreaterThanOrEqual(4)
  })
  const [first, , , fourth] = turns
  expect(longest()).toBe(50)
  expect(fourth!.endedAt - first!.endedAt).toBeGreaterThan(3 * 5 * 20)

  isBesideOthers = true
  isBehind = false
  const before = turns.length + 1
  await eventually(() => expect(turns.length).toBeGreaterThan(before + 5))
  expect(longest(before)).toBe(20)

  isBesideOthers = false
  await eventually(() => expect(inTurns()).toHaveLength(1_200))
  expect(longest()).toBe(200)
  expect(inTurns()).toEqual(events.map(({ id }) => id))
})

test('an event that cannot be recorded is retried with growing pauses and never lost, and other accounts do not wait', async () => {
  await using deferred = await given()
  const [stuckAccount = '', otherAccount = ''] = [newId('acct'), newId('acct')].toSorted()
  const stuck = givenEvents(stuckAccount, 2)
  const others = givenEvents(otherAccount, 5)

  const failures: { fields: unknown; at: number }[] = []
  const ids: string[] = []
  let isBroken = true
  const error = (fields: unknown) => failures.push({ fields, at: performance.now() })
  const recording = deferred.start({
    consume: async (tx, received) => {
      if (isBroken && received.some(({ event }) => event.id === stuck[0]!.id)) {
        // This takes longer than the first pause, and no other try may begin meanwhile.
        await tx`select pg_sleep(0.15)`
        await tx`select 1 / 0`
      }
      return recorded(() => ids.push(...received.map(({ event }) => event.id)))
    },
    retry: { firstMs: 100, maxMs: 400 },
    log: Object.assign(Object.create(log) as typeof log, { error }),
  })
  const failingAccounts = async () => register.getSingleMetricAsString('events_deferred_failing_accounts')

  await deferred.put(stuck)
  recording.wake()
  await eventually(() => expect(failures.length).toBeGreaterThanOrEqual(1))
  await deferred.put(others)
  recording.wake()
  await eventually(() => expect(ids).toEqual(others.map(({ id }) => id)))
  expect(await failingAccounts()).toContain('events_deferred_failing_accounts 1')
  await eventually(() => {
    // Newly deferred events do not end a pause.
    recording.wake()
    expect(failures.length).toBeGreaterThanOrEqual(5)
  })
  const pauses = failures.slice(1).map(({ at }, index) => at - failures[index]!.at)
  // Each is a pause plus the time of the try before it, which records both events and then the first event alone.
  const atLeast = [400, 500, 700, 700]
  atLeast.forEach((ms, index) => expect(pauses[index]).toBeGreaterThanOrEqual(ms - 1))
  expect(failures[0]!.fields).toMatchObject({ account_id: stuckAccount, event_id: stuck[0]!.id })

  isBroken = false
  await eventually(() => expect(ids.slice(others.length)).toEqual(stuck.map(({ id }) => id)))
  await eventually(async () =>
    expect(await failingAccounts()).toContain('events_deferred_failing_accounts 0'),
  )
})

test('an event that cannot be recorded is not tried twice at the same time', async () => {
  await using deferred = await given()
  const accounts = Array.from({ length: 30 }, () => newId('acct'))
  await deferred.put(accounts.flatMap((accountId) => givenEvents(accountId, 2)))

  const tried = new Map<string, number>()
  const recording = deferred.start({
    consume: async (tx, received) => {
      const { accountId } = received[0]!.event
      if (received.length === 1) tried.set(accountId, (tried.get(accountId) ?? 0) + 1)
      return tx`select 1 / 0`.then(() => recorded(() => {}))
    },
    retry: { firstMs: 600_000, maxMs: 600_000 },
  })
  await eventually(() => {
    recording.wake()
    expect(tried.size).toBe(accounts.length)
  })
  expect(new Set(tried.values())).toEqual(new Set([1]))
})

test('a retry that is due is not started by both loops', async () => {
  // With one connection, transactions run in the order in which they were begun.
  await using deferred = await given({ max: 1 })
  await deferred.put(givenEvents(newId('acct'), 2))

  const tried: number[] = []
  const recording = deferred.start({
    consume: async (tx, received) => {
      tried.push(received.length)
      return tx`select 1 / 0`.then(() => recorded(() => {}))
    },
    retry: { firstMs: 50, maxMs: 50 },
  })
  await eventually(() => {
    recording.wake()
    expect(tried.length).toBeGreaterThanOrEqual(12)
  })
  // Each try records both events, and after it fails, the first event alone.
  expect(tried.slice(0, 12)).toEqual([2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1])
})
