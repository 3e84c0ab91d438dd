import type { Database } from '@licensing/database/connect'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import type { FaultyProxy } from '@licensing/test-support/faulty-proxy'
import { startNatsCluster } from '@licensing/test-support/nats-cluster'
import { natsPasswordOf } from '@licensing/test-support/nats-users'
import { eventually } from '@licensing/test-support/poll'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { connectNats } from './connection.ts'
import { append } from './outbox.ts'
import { startRelay } from './relay.ts'
import { whenFaulty } from './testing/faults.ts'
import {
  byAccount,
  consume,
  effectsOf,
  givenDatabase,
  givenServers,
  log,
  logContents,
  suspended,
  upTo,
} from './testing/given.ts'

// FAULT_SEED repeats a run and FAULT_ROUNDS lengthens it. Hundreds of rounds take minutes.
const rounds = Number(process.env.FAULT_ROUNDS ?? 12)
const seed = Number(process.env.FAULT_SEED ?? 1)
const timeoutMs = 60_000 + rounds * 3_000
const accounts = Array.from({ length: 6 }, (_, at) => `acct_${at}`)

/** A server or a cluster, reached directly and through proxies. */
async function givenPlace(kind: 'one server' | 'a cluster of three') {
  await using started = new AsyncDisposableStack()
  if (kind === 'one server') {
    const given = started.use(await givenServers())
    const proxy = started.use(await startFaultyProxy(new URL(given.server.url).host))
    const others = started.use(await startFaultyProxy(new URL(given.server.url).host))
    const running = started.move()
    return {
      sql: given.sql,
      replicas: 1,
      direct: given.server.url,
      proxied: [`nats://${proxy.address}`, `nats://${others.address}`],
      proxies: [proxy, others],
      [Symbol.asyncDispose]: () => running.disposeAsync(),
    }
  }
  const cluster = await startNatsCluster({ proxied: true })
  if (!cluster) return undefined
  started.use(cluster)
  const given = started.use(await givenDatabase())
  const running = started.move()
  return {
    sql: given.sql,
    replicas: 3,
    direct: cluster.directUrls.join(','),
    proxied: [cluster.urls.join(','), cluster.urls.toReversed().join(',')],
    proxies: cluster.proxies,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Commits changes of all accounts until it is stopped. @returns the number of changes of each account */
function startChanges(sql: Database) {
  const state = { running: true }
  const written = accounts.map(async (account) => {
    let last = 0
    while (state.running) {
      const count = 1 + (last % 15)
      await sql.begin((tx) =>
        append(tx, ...Array.from({ length: count }, (_, at) => suspended(account, last + at + 1))),
      )
      last += count
      await sleep(50)
    }
    return last
  })
  return {
    async stop() {
      state.running = false
      return Promise.all(written)
    },
  }
}

async function expectAll(
  proxies: FaultyProxy[],
  sql: Database,
  last: number[],
  doing: { faults: string[] },
): Promise<void> {
  for (const proxy of proxies) proxy.flow()
  const total = last.reduce((sum, count) => sum + count, 0)
  await eventually(
    async () => {
      const [row] = await sql<{ count: number }[]>`select count(*)::int as count from effects`
      expect(row!.count, `seed ${seed}, after: ${doing.faults.join(', ')}`).toBe(total)
    },
    { intervalMs: 200 },
  )
}

// The tests run concurrently because they wait most of the time.
describe.concurrent.each(['one server', 'a cluster of three'] as const)('on %s', (kind) => {
  test(
    'consumers behind connections that stall, reset, delay and cut consume every event once, in order',
    async ({ skip }) => {
      await using place = await givenPlace(kind)
      if (!place) return skip('nats-server runs only from an image here')
      await using running = new AsyncDisposableStack()
      const { sql, replicas } = place
      const connect = async (urls: string, user: string) =>
        running.adopt(await connectNats(urls, user, log, natsPasswordOf(user)), (nats) => nats.close())
      const sender = await connect(place.direct, 'licensing')
      running.adopt(
        startRelay({ sql, nats: sender, source: 'licensing', streamReplicas: replicas, log }),
        (relay) => relay.stop(),
      )
      for (const urls of place.proxied) {
        const nats = await connect(urls, 'notifier')
        const consumer = consume({ sql, nats })
        running.defer(() => consumer.stop())
      }
      const changes = startChanges(sql)
      await eventually(async () => (await effectsOf(sql)).length > 0)
      const faults = await whenFaulty(place.proxies, { rounds, seed, maxMs: 3_000 })
      const last = await changes.stop()
      await expectAll(place.proxies, sql, last, { faults })
      const consumed = byAccount(await effectsOf(sql))
      accounts.forEach((account, at) => expect(consumed[account]).toEqual(upTo(last[at]!)))
    },
    timeoutMs,
  )

  test(
    'relays behind connections that stall, reset, delay and cut log every event once, in order',
    async ({ skip }) => {
      await using place = await givenPlace(kind)
      if (!place) return skip('nats-server runs only from an image here')
      await using running = new AsyncDisposableStack()
      const { sql, replicas } = place
      for (const urls of place.proxied) {
        const nats = running.adopt(
          await connectNats(urls, 'licensing', log, natsPasswordOf('licensing')),
          (open) => open.close(),
        )
        const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: replicas, log })
        running.defer(() => relay.stop())
      }
      // Without a consumer that confirms them, an account's further events get no numbers.
      const direct = running.adopt(
        await connectNats(place.direct, 'notifier', log, natsPasswordOf('notifier')),
        (open) => open.close(),
      )
      const consumer = consume({ sql, nats: direct })
      running.defer(() => consumer.stop())
      const changes = startChanges(sql)
      const faults = await whenFaulty(place.proxies, { rounds, seed, maxMs: 3_000 })
      const last = await changes.stop()
      for (const proxy of place.proxies) proxy.flow()
      await eventually(
        async () => {
          const [row] = await sql<{ count: number }[]>`select count(*)::int as count from outbox`
          expect(row!.count, `seed ${seed}, after: ${faults.join(', ')}`).toBe(0)
        },
        { timeoutMs: 60_000, intervalMs: 200 },
      )
      const logged = byAccount(await logContents(sql))
      accounts.forEach((account, at) => expect(logged[account], `seed ${seed}`).toEqual(upTo(last[at]!)))
    },
    timeoutMs,
  )
})
