import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { measureWhenScraped } from '@licensing/process/measures'
import { ReadLogRequestSchema, ReadLogResponseSchema } from '@licensing/proto/event-log'
import type { ReadLogRequest } from '@licensing/proto/event-log'
import { consumersOf, logSubjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import type { Msg } from 'nats'
import { randomUUID } from 'node:crypto'
import { Counter, Gauge } from 'prom-client'
import {
  beginEpochAfterLoss,
  findLogFor,
  listBatches,
  listPastSlots,
  logBytes,
  pruneEpochs,
  truncateSlot,
  unconfirmedAge,
} from './log-queries.ts'
import type { KnownLog } from './log-queries.ts'
import { oldestAge } from './outbox-queries.ts'
import type { Nats } from './connection.ts'

const serveAgainMs = 500
// A NATS message has at most 1 MiB.
const mostAnswerBytes = 512 * 1024
const mostOpen = 8
const hourMs = 3_600_000
// A consumer that is restored from a backup of yesterday finds the events since.
const keptSeconds = 86_400
// A consumer that is stopped for longer loses events. The alert comes after an hour.
const mostKeptSeconds = 6 * 86_400

const labelNames = ['source']
const waiting = new Gauge({
  name: 'outbox_oldest_seconds',
  help: 'Age of the oldest event not yet published',
  labelNames,
})
const unconfirmed = new Gauge({
  name: 'event_log_unconfirmed_seconds',
  help: 'Age of the oldest event in the log that a consumer has not confirmed',
  labelNames,
})
const size = new Gauge({ name: 'event_log_bytes', help: 'Size of the log in PostgreSQL', labelNames })
const dropped = new Counter({
  name: 'event_log_dropped_unconfirmed_total',
  help: 'Days of the log that were removed before every consumer had confirmed them',
  labelNames,
})
const losses = new Counter({
  name: 'event_log_losses_total',
  help: 'Times that a consumer was ahead of the log, which was set back without a restart of PostgreSQL',
  labelNames,
})

/** Answers consumers that read the log of this service, and removes the days that all have confirmed. */
export function startLogService({
  sql,
  nats,
  source,
  log,
}: {
  sql: Database
  nats: Nats
  source: Source
  log: Logger
}): { stop(): Promise<void> } {
  const consumers = consumersOf[source]
  const answer = async (consumer: string, message: Msg) => {
    const request = fromBinary(ReadLogRequestSchema, message.data)
    let known = await findLogFor(sql, consumer, request.positions)
    if (await restartAfterLoss(known, request)) {
      losses.inc({ source })
      log.error(
        { consumer },
        'a consumer is ahead of the event log: the log was set back, a new epoch begins',
      )
      known = await findLogFor(sql, consumer, [])
    }
    const { partition, after } = request.batches ?? {}
    const batches =
      partition === undefined
        ? []
        : await listBatches(sql, { partition, after: after!, bytes: mostAnswerBytes })
    const response = create(ReadLogResponseSchema, {
      numbers: known.numbers,
      batches,
      epochs: known.epochs.map(({ epoch, first_numbers: firstNumbers }) => ({ epoch, firstNumbers })),
    })
    message.respond(toBinary(ReadLogResponseSchema, response))
  }
  /** Only a consumer that has adopted the newest epoch proves a loss. */
  const restartAfterLoss = async ({ numbers, epochs }: KnownLog, { positions }: ReadLogRequest) => {
    const newest = epochs.at(-1)?.epoch
    const ahead = positions.find(
      ({ epoch, partition, number }) => epoch === newest && number > numbers[partition]!,
    )
    return ahead !== undefined && beginEpochAfterLoss(sql, randomUUID(), ahead)
  }
  /** Ends if the connection was replaced by another. */
  const serve = async (consumer: string, signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const subscription = nats.connection.subscribe(logSubjectOf(source, consumer), { queue: source })
    const unsubscribe = () => subscription.unsubscribe()
    signal.addEventListener('abort', unsubscribe, { once: true })
    const open = new Set<Promise<void>>()
    try {
      for await (const message of subscription) {
        // A consumer whose request is not answered asks again.
        if (open.size >= mostOpen) continue
        const answering = answer(consumer, message).catch((error: unknown) => {
          log.warn({ err: error, consumer }, 'a read of the event log failed')
        })
        open.add(answering)
        void answering.finally(() => open.delete(answering))
      }
    } finally {
      signal.removeEventListener('abort', unsubscribe)
      await Promise.all(open)
    }
  }
  const measure = async () => {
    waiting.set({ source }, await oldestAge(sql))
    unconfirmed.set({ source }, await unconfirmedAge(sql, consumers))
    size.set({ source }, await logBytes(sql))
  }
  const trim = async () => {
    for (const { slot, age_seconds: age, is_confirmed: isConfirmed } of await listPastSlots(sql, consumers)) {
      if (age < keptSeconds || (!isConfirmed && age < mostKeptSeconds)) continue
      await truncateSlot(sql, slot)
      if (isConfirmed) continue
      dropped.inc({ source })
      log.error(
        { slot },
        'a day of the event log was removed that a consumer has not confirmed: events are lost',
      )
    }
    await pruneEpochs(sql)
  }
  const start = (work: (signal: AbortSignal) => Promise<void>, everyMs: number, failure: string) =>
    startLoop({
      work,
      everyMs,
      failed: (error) => log.warn({ err: error }, failure),
      isOutage: isDatabaseOutage,
    })
  const loops = [
    ...consumers.map((consumer) =>
      start((signal) => serve(consumer, signal), serveAgainMs, 'the event log is not served, trying again'),
    ),
    start(trim, hourMs, 'the event log could not be trimmed'),
  ]
  const endMeasuring = measureWhenScraped(log, 'event log', measure)
  return {
    async stop() {
      endMeasuring()
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
