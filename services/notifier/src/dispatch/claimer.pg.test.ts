import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Database } from '@licensing/database/connect'
import { encrypt, parseEncryptionKeys } from '@licensing/database/encryption'
import { insertRows, rowsOf } from '@licensing/database/row-queries'
import { createLogger } from '@licensing/process/log'
import { isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { sessionSettings } from '../database-settings.ts'
import { lowerNextDueAt } from '../deliveries/delivery-queries.ts'
import { makePartitions } from '../events/event-partitions.ts'
import { Claimer } from './claimer.ts'
import { EndpointCache } from './endpoint-cache.ts'
import { Scheduler } from './scheduler.ts'
import type { NextAttempt } from './scheduler.ts'
import type { ClaimedDelivery } from './claimed-delivery.ts'

const keys = parseEncryptionKeys(randomBytes(32).toString('base64url'))
const otherKeys = parseEncryptionKeys(randomBytes(32).toString('base64url'))
const log = createLogger('notifier', 'silent')

interface Blocked {
  id: string
  accountId: string
}

/** An endpoint that answers in 10 ms, and always has the same number of deliveries queued. */
const busy = { id: 'whe_busy', accountId: 'acct_blocked' }

/** An endpoint that answers in 20 ms. */
const quick = { id: 'whe_quick', accountId: 'acct_quick' }

/** The claimer of a process whose attempts never end, except those at the busy and the quick endpoint. */
async function startClaimer() {
  await using started = new AsyncDisposableStack()
  const { sql } = started.use(await givenDatabase({ settings: sessionSettings }))
  await makePartitions(sql, new Date())
  await sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body)
    values (date_trunc('day', now()), 'acct_well', 1, 'app_1', 'evt_1', '{}')`
  const scheduler = new Scheduler(512)
  const sent: NextAttempt[] = []
  const answered = new AbortController()
  started.defer(() => answered.abort())
  const answer = async (claimed: ClaimedDelivery) => {
    await sleep(10, undefined, { signal: answered.signal })
    scheduler.ended(claimed, 'delivered', performance.now())
    queue(scheduler, busy, 1)
    startAttempts()
  }
  const end = (claimed: ClaimedDelivery) => {
    scheduler.ended(claimed, 'delivered', performance.now())
    startAttempts()
  }
  const startAttempts = () => {
    const now = performance.now()
    for (let pick = scheduler.next(now); pick; pick = scheduler.next(now)) {
      const { claimed, settings } = pick
      if (settings.id === busy.id) answer(claimed).catch(() => {})
      else sent.push(pick)
      if (settings.id === quick.id) setTimeout(() => end(claimed), 20)
    }
  }
  const claimer = new Claimer({
    sql,
    clock: { now: () => new Date() },
    keptSince: () => new Date(0),
    log,
    scheduler,
    endpoints: new EndpointCache(keys, log),
    startAttempts,
    isBehind: () => false,
    alertQueued: () => {},
  })
  started.defer(() => claimer.stop())
  const running = started.move()
  const sentTo = (endpointId: string) =>
    sent.filter(({ settings }) => settings.id === endpointId).map(({ claimed }) => claimed.delivery.id)
  return { sql, scheduler, claimer, sentTo, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

async function givenEndpoints(sql: Database, endpoints: Blocked[], secretKeys = keys): Promise<void> {
  const rows = endpoints.map(({ id, accountId: account_id }) => {
    const encrypted_secret = encrypt('whsec_1', id, secretKeys)
    const url = 'https://example.com/'
    return { id, account_id, application_id: 'app_1', url, encrypted_secret, created_at: new Date() }
  })
  await insertRows(sql, 'endpoints', rows)
}

/** Retries of each endpoint that are due since a time. */
async function givenRetries(
  sql: Database,
  endpoints: Blocked[],
  { prefix, each, dueAt }: { prefix: string; each: number; dueAt: Date },
): Promise<void> {
  const rows = endpoints.map(({ id, accountId: account_id }) => ({ id, account_id }))
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, attempt_count, scheduled_attempts, retry_at, due_at)
    select ${prefix} || id || '_' || i, account_id, 'app_1', id, 'evt_1', 'licence.created', date_trunc('day', now()),
      1, now(), 1, 1, ${dueAt}, ${dueAt}
    from ${rowsOf(sql, { id: 'text', account_id: 'text' }, rows)} endpoint
    cross join generate_series(1, ${each}::int) as i`
  await lowerNextDueAt(
    sql,
    endpoints.map(({ id }) => id),
    dueAt,
  )
}

function queue(scheduler: Scheduler, { id, accountId }: Blocked, count: number): void {
  for (let i = 0; i < count; i += 1) {
    scheduler.add(
      {
        id,
        accountId,
        url: 'https://example.com/',
        paused: false,
        signature: 'default',
        secret: 'whsec_1',
        former: null,
        headers: [],
        generation: 1n,
      },
      {
        delivery: {
          id: `queued_${id}_${i}`,
          application_id: 'app_1',
          endpoint_id: id,
          event_id: 'evt_1',
          body: '{}',
          trace_parent: null,
          attempt_count: 1,
          scheduled_attempts: 1,
          is_replay: false,
          created_at: new Date(),
        },
        claimId: '00000000-0000-4000-8000-000000000000',
        leaseEndsAt: Infinity,
      },
    )
  }
}

/** Times an attempt out. The endpoint then counts as slow. */
function timeOut(scheduler: Scheduler, endpoint: Blocked): void {
  queue(scheduler, endpoint, 1)
  const { claimed } = scheduler.next(performance.now())!
  scheduler.ended(claimed, 'timeout', performance.now())
}

const ofOneAccount = () => 'acct_blocked'
const ofManyAccounts = (i: number) => `acct_${i}`

interface Kind {
  name: string
  accountOf: (i: number) => string
  isUnreadable?: boolean
  block?: (scheduler: Scheduler, endpoints: Blocked[]) => void
}

const kinds: Kind[] = [
  { name: 'with unreadable secrets, of one account', accountOf: ofOneAccount, isUnreadable: true },
  { name: 'with unreadable secrets, of many accounts', accountOf: ofManyAccounts, isUnreadable: true },
  {
    name: 'of an account with 5,000 deliveries queued',
    accountOf: ofOneAccount,
    block: (scheduler) => queue(scheduler, busy, 5_100),
  },
  ...[ofOneAccount, ofManyAccounts].map((accountOf, i) => ({
    name: `at capacity, of ${i === 0 ? 'one account' : 'many accounts'}`,
    accountOf,
    block: (scheduler: Scheduler, endpoints: Blocked[]) => {
      for (const endpoint of endpoints) timeOut(scheduler, endpoint)
      // All slow endpoints together get no more than 102 places in the queue.
      for (const endpoint of endpoints.slice(0, 60)) queue(scheduler, endpoint, 2)
    },
  })),
]

// The claimer searches 64 endpoints at a time.
const counts = isFull ? [64, 640, 6_400] : [640]

test.concurrent.each(counts.flatMap((count) => kinds.map((kind) => ({ count, ...kind }))))(
  '$count endpoints $name do not delay the retry of a healthy endpoint',
  async ({ count, accountOf, isUnreadable, block }) => {
    await using notifier = await startClaimer()
    const { sql, scheduler, claimer, sentTo } = notifier
    const blocked = Array.from({ length: count }, (_, i) => ({ id: `whe_${i}`, accountId: accountOf(i) }))
    await givenEndpoints(sql, blocked, isUnreadable ? otherKeys : keys)
    await givenRetries(sql, blocked, { prefix: 'dlv_', each: 3, dueAt: new Date(Date.now() - 3_600_000) })
    block?.(scheduler, blocked)
    const healthy = [{ id: 'whe_well', accountId: 'acct_well' }]
    await givenEndpoints(sql, healthy)
    // A retry of the healthy endpoint is due after all others.
    const retry = (prefix: string) => givenRetries(sql, healthy, { prefix, each: 1, dueAt: new Date() })
    await retry('first_')
    claimer.start()
    await eventually(() => expect(sentTo('whe_well')).toContain('first_whe_well_1'))
    // The blocked endpoints are sent only deliveries that were in the queue before.
    for (const { id } of blocked) expect(sentTo(id).filter((sent) => sent.startsWith('dlv_'))).toEqual([])

    // After the blocked endpoints are known, the next search finds the next retry.
    const hasAlerts = async () =>
      expect(await sql`select 1 from alerts`).toHaveLength(isUnreadable ? count : 0)
    await eventually(hasAlerts, { timeoutMs: 120_000, intervalMs: 100 })
    await retry('second_')
    // The first retry may be sent again after its lease has ended, because its attempt never ends. Accounts take turns, and 6,400
    // of them take a hundred searches.
    await eventually(() => expect(sentTo('whe_well')).toContain('second_whe_well_1'), { timeoutMs: 60_000 })
  },
)

test('deliveries that are released while others are claimed are sent before those that follow them', async () => {
  await using notifier = await startClaimer()
  const { sql, scheduler, claimer, sentTo } = notifier
  await givenEndpoints(sql, [quick])
  const [count, since] = [3_000, new Date(Date.now() - 60_000)]
  await givenRetries(sql, [quick], { prefix: 'dlv_', each: count, dueAt: since })
  await sql`update deliveries set sequence = split_part(id, '_', 4)::int`
  await sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body)
    select recorded_at, account_id, sequence, application_id, id, '{}' from deliveries`
  // As if the endpoint were too slow for all that is queued, again and again.
  scheduler.tick = () => scheduler.drop(quick.id)
  claimer.start()
  // A delivery is sent again when its lease ends, because no attempt is recorded.
  const places = () => [...new Set(sentTo(quick.id))].map((id) => Number(id.split('_').at(-1)))
  while (places().length < count) {
    await sleep(5)
    claimer.wake()
  }
  expect(Math.max(...places().map((place, at) => Math.abs(place - at - 1)))).toBeLessThanOrEqual(64)
})
