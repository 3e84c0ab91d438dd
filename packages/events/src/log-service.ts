import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { measureWhenScraped } from '@licensing/process/measures'
import { ReadLogRequestSchema, ReadLogResponseSchema } from '@licensing/proto/event-log'
import { consumersOf, logSubjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import type { Msg } from 'nats'
import { Counter, Gauge } from 'prom-client'
import type { Nats } from './connection.ts'
import {
  encoded,
  beginEpochAfter,
  findLogFor,
  listBatches,
  listPastSlots,
  measureLog,
  pruneEpochs,
  truncateSlot,
} from './log-queries.ts'
import { oldestAge } from './outbox-queries.ts'

// A NATS message has at most 1 MiB.
const maxAnswerBytes = 512 * 1024
const maxOpen = 8
const hourMs = 3_600_000
// A consumer restored from yesterday's backup still finds the events since then.
const keptSeconds = 86_400
// A consumer that is stopped for longer loses events. The alert comes after an hour.
const maxKeptSeconds = 6 * 86_400

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

interface LogServiceOptions {
  sql: Database
  nats: Nats
  source: Source
  log: Logger
  /** Called when a consumer has reported its positions. */
  confirmed: () => void
}

/** Answers consumers that read the log of this service, and removes days that all consumers have confirmed. */
export function startLogService(options: LogServiceOptions): { stop(): Promise<void> } {
  const { sql, nats, source, log } = options
  const consumers = consumersOf[source]
  const open = new Set<Promise<void>>()
  const unsubscribes = consumers.map((consumer) => {
    const handle = (message: Msg) => {
      // If there is no answer, the consumer asks again.
      if (open.size >= maxOpen) return
      const answering = answer(options, consumer, message).catch((error: unknown) =>
        log.warn({ err: error, consumer }, 'a read of the event log failed'),
      )
      open.add(answering)
      void answering.finally(() => open.delete(answering))
    }
    return nats.subscribe(logSubjectOf(source, consumer), handle, source)
  })
  const trimming = startLoop({
    work: () => trim(options),
    everyMs: hourMs,
    failed: (error) => log.warn({ err: error }, 'the event log could not be trimmed'),
    isOutage: isDatabaseOutage,
  })
  const endMeasuring = measureWhenScraped(log, 'event log', async () => {
    const { unconfirmed_seconds: seconds, bytes } = await measureLog(sql, consumers)
    waiting.set({ source }, await oldestAge(sql))
    unconfirmed.set({ source }, seconds)
    size.set({ source }, bytes)
  })
  return {
    async stop() {
      endMeasuring()
      for (const unsubscribe of unsubscribes) unsubscribe()
      await Promise.all([trimming.stop(), ...open])
    },
  }
}

async function answer(
  { sql, source, log, confirmed }: LogServiceOptions,
  consumer: string,
  message: Msg,
): Promise<void> {
  const { positions, batches: range } = fromBinary(ReadLogRequestSchema, message.data)
  let known = await findLogFor(sql, consumer, positions)
  confirmed()
  // A position proves a loss only if its consumer has adopted the newest epoch.
  const newest = known.epochs.at(-1)?.epoch
  const ahead = positions.find(
    ({ epoch, partition, number }) => epoch === newest && number > known.numbers[partition]!,
  )
  if (ahead && (await beginEpochAfter(sql, ahead))) {
    losses.inc({ source })
    log.error({ consumer }, 'a consumer is ahead of the event log: the log was set back, a new epoch begins')
    known = await findLogFor(sql, consumer, [])
  }
  const response = create(ReadLogResponseSchema, {
    numbers: known.numbers,
    epochs: known.epochs.map(({ epoch, first_numbers: firstNumbers }) => ({ epoch, firstNumbers })),
    batches: range ? (await listBatches(sql, { ...range, bytes: maxAnswerBytes })).map(encoded) : [],
  })
  message.respond(toBinary(ReadLogResponseSchema, response))
}

async function trim({ sql, source, log }: LogServiceOptions): Promise<void> {
  for (const { slot, age_seconds: age, is_confirmed: isConfirmed } of await listPastSlots(
    sql,
    consumersOf[source],
  )) {
    if (age < keptSeconds || (!isConfirmed && age < maxKeptSeconds)) continue
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
