import type { Sql } from '@licensing/database/connect'
import { pruneConsumed } from '@licensing/events/consumer-queries'
import { append } from '@licensing/events/outbox'
import type { Outbox } from '@licensing/events/outbox'
import { pause } from '@licensing/events/pause'
import type { Logger } from '@licensing/process/log'
import { Counter } from 'prom-client'
import { licenceEvent } from '../licences/licence.ts'
import { expirePast } from './sweep-queries.ts'
import type { Due } from './sweep-queries.ts'

export interface Sweep {
  stop(): Promise<void>
}

interface SweepOptions {
  sql: Sql
  outbox: Outbox
  intervalMs: number
  log: Logger
}

const expiredAtOnce = 500
// One makes its events while PostgreSQL changes the licences of another.
const lanes = 2
const pruneEveryMs = 3_600_000
// Longer than the streams keep events: no copy of an event comes after its id is forgotten.
const consumedKeptDays = 40

const expired = new Counter({ name: 'licences_expired_total', help: 'Licences that the sweep has expired' })

/**
 * Expires licences past `expires_on`, every `intervalMs` milliseconds and until none is left, so that it catches up
 * after a downtime. Replicas share the work: each takes what no other holds.
 */
export function startSweep(options: SweepOptions): Sweep {
  const stopped = new AbortController()
  const running = run(options, stopped.signal)
  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

async function run({ sql, outbox, intervalMs, log }: SweepOptions, signal: AbortSignal): Promise<void> {
  let prunedAt = 0
  while (!signal.aborted) {
    try {
      await expireLicences(outbox, signal)
      if (Date.now() - prunedAt > pruneEveryMs) {
        await pruneConsumed(sql, consumedKeptDays)
        prunedAt = Date.now()
      }
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error }, 'sweep failed, trying again')
    }
    await pause(intervalMs, signal)
  }
}

/** One sweep. @returns how many licences it expired */
export async function expireLicences(outbox: Outbox, signal?: AbortSignal): Promise<number> {
  const totals = await Promise.all(Array.from({ length: lanes }, () => expireInTurn(outbox, signal)))
  return totals.reduce((sum, total) => sum + total, 0)
}

async function expireInTurn(outbox: Outbox, signal: AbortSignal | undefined): Promise<number> {
  let last: Due | undefined
  for (let total = 0; ;) {
    const licences = await outbox.transaction(async (tx) => {
      const past = await expirePast(tx, last, expiredAtOnce)
      await append(tx, ...past.map((licence) => licenceEvent('licenceExpired', licence)))
      return past
    })
    total += licences.length
    expired.inc(licences.length)
    if (licences.length < expiredAtOnce || signal?.aborted) return total
    last = licences.at(-1)
  }
}
