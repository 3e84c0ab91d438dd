import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { connectNats } from '@licensing/events/connection'
import { outboxMigrations } from '@licensing/events/migrations'
import { createChange } from '@licensing/changes/change'
import { append } from '@licensing/events/outbox'
import { startRelay } from '@licensing/events/relay'
import { keepHeapSmall } from '@licensing/process/heap'
import { createLogger } from '@licensing/process/log'
import { setTimeout as pause } from 'node:timers/promises'
import type { Vendor } from './test-bed.ts'
import { machineMs } from './machine-clock.ts'
import type { Order } from './start-sender.ts'

// A service that sends events through its own outbox and the relay, as licensing does. `start-sender.ts` controls it.
const eachTransaction = 100
const maxOpen = 5

keepHeapSmall()

const [databaseUrl = '', natsUrl = ''] = process.argv.slice(2)
const log = createLogger('sender', 'warn')
const sql = connect(databaseUrl, { name: 'sender', max: 10 })
await migrate(sql, [outboxMigrations])
const nats = await connectNats(natsUrl, 'sender', log)
const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas: 1, log })
const change = createChange(sql, () => relay.wake())

const floods = new Map<number, { stopped: AbortController; ended: Promise<Record<string, number>> }>()

process.on('message', (order: Order) => {
  const answer = (value: object) => process.send?.({ number: order.number, ...value })
  if (order.do === 'send') {
    const atMs = machineMs()
    void change((tx) => append(tx, suspended(order.vendor))).then(([id]) => answer({ id, atMs }))
  } else if (order.do === 'flood') {
    const stopped = new AbortController()
    floods.set(order.number, { stopped, ended: flood(order.vendor, order.perSecond, stopped.signal) })
  } else {
    const { stopped, ended } = floods.get(order.number)!
    stopped.abort()
    void ended.then(answer)
  }
})
process.once('disconnect', () => process.exit())
process.send?.('up')

/** Commits events of a vendor at a rate until it is stopped. @returns how many it committed and published per second */
async function flood(vendor: Vendor, perSecond: number, signal: AbortSignal) {
  const startedAt = performance.now()
  const everyMs = (eachTransaction * 1_000) / perSecond
  const open = new Set<Promise<unknown>>()
  let begun = 0
  for (; !signal.aborted; begun += 1) {
    const dueInMs = startedAt + begun * everyMs - performance.now()
    if (dueInMs > 1) await pause(dueInMs)
    if (open.size === maxOpen) await Promise.race(open)
    const events = Array.from({ length: eachTransaction }, () => suspended(vendor))
    const transaction = change((tx) => append(tx, ...events)).finally(() => open.delete(transaction))
    open.add(transaction)
  }
  await Promise.all(open)
  const seconds = (performance.now() - startedAt) / 1_000
  const committed = begun * eachTransaction
  // Unpublished events would be sent during the next measurement.
  const left = await sql`delete from outbox where account_id = ${vendor.accountId}`
  // Without a vacuum, each read of the outbox would have to skip the deleted rows.
  await sql`vacuum outbox`
  return {
    committedPerSecond: Math.round(committed / seconds),
    publishedPerSecond: Math.round((committed - left.count) / seconds),
  }
}

function suspended({ accountId, applicationId }: Vendor) {
  return {
    accountId,
    applicationId,
    payload: {
      case: 'licenceSuspended' as const,
      value: { licenceId: 'lic_01k9v7f8qyf0cbe7bq2m7t1a2b', status: 'suspended', reason: 'manual' },
    },
  }
}
