import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { measureWhenScraped } from '@licensing/process/measures'
import { ReadLogRequestSchema, ReadLogResponseSchema } from '@licensing/proto/event-log'
import type { ReadLogRequest_Position } from '@licensing/proto/event-log'
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
  listGrowths,
  listPastSlots,
  measureLog,
  pruneEpochs,
  truncateSlot,
} from './log-queries.ts'
import type { Newest } from './log-queries.ts'
import { oldestAge } from './outbox-queries.ts'
import { firstPartitions } from './partitions.ts'

// A NATS message has at most 1 MiB.
const maxAnswerBytes = 512 * 1024
const maxOpen = 8
const trimMs = 600_000
// A consumer restored from yesterday's backup still finds the events since then.
const keptSeconds = 86_400
// Until the log has this many bytes, unconfirmed days stay. From half of them it warns.
const defaultBytes = 8 * 1024 ** 3
const warnFrom = 0.5
// The table of a day is used again after 16 days.
const maxKeptSeconds = 14 * 86_400

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
const fill = new Gauge({
  name: 'event_log_fill_ratio',
  help: 'Size of the log divided by EVENT_LOG_MAX_BYTES: at 1 days are removed that a consumer has not confirmed',
  labelNames,
})
const dropped = new Counter({
  name: 'event_log_dropped_unconfirmed_total',
  help: 'Days of the log that were removed before every consumer had confirmed them',
  labelNames,
})
const losses = new Counter({
  name: 'event_log_losses_total',
  help: 'Times that a consumer was ahead of the log, which was restored from a backup without a restart of PostgreSQL',
  labelNames,
})

interface LogServiceOptions {
  sql: Database
  nats: Nats
  source: Source
  /** Size of the log above which its oldest days are removed, even if consumers have not confirmed them. */
  logBytes?: number | undefined
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
    everyMs: trimMs,
    failed: (error) => log.warn({ err: error }, 'the event log could not be trimmed'),
    isOutage: isDatabaseOutage,
  })
  const endMeasuring = measureWhenScraped(log, 'event log', async () => {
    const { unconfirmed_seconds: seconds, bytes } = await measureLog(sql, consumers)
    waiting.set({ source }, await oldestAge(sql))
    unconfirmed.set({ source }, seconds)
    size.set({ source }, bytes)
    fill.set({ source }, bytes / (options.logBytes ?? defaultBytes))
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
  const { positions, partition } = fromBinary(ReadLogRequestSchema, message.data)
  let newest = await findLogFor(sql, consumer, positions)
  confirmed()
  const ahead = positions.find((position) => isAhead(position, newest))
  if (ahead) {
    losses.inc({ source })
    log.error(
      { consumer },
      'a consumer is ahead of the event log: the log was restored from a backup, a new epoch begins',
    )
    await beginEpochAfter(sql, ahead)
    newest = await findLogFor(sql, consumer, [])
  }
  const from = positions.find((position) => position.partition === partition)
  const batches = from ? await listBatches(sql, { ...from, bytes: maxAnswerBytes }) : []
  const growths = newest.numbers.length > firstPartitions ? await listGrowths(sql) : []
  const response = create(ReadLogResponseSchema, { ...newest, growths, batches: batches.map(encoded) })
  message.respond(toBinary(ReadLogResponseSchema, response))
}

/** Whether a consumer has events that the log does not have. */
function isAhead({ partition, epoch, number, hasPart }: ReadLogRequest_Position, newest: Newest): boolean {
  if (epoch !== newest.epoch) return epoch > newest.epoch && newest.epoch > 0n
  return number + (hasPart ? 1n : 0n) > (newest.numbers[partition] ?? 0n)
}

async function trim({ sql, source, log, logBytes = defaultBytes }: LogServiceOptions): Promise<void> {
  let { bytes } = await measureLog(sql, consumersOf[source])
  const slots = await listPastSlots(sql, consumersOf[source])
  const confirmed = slots.filter((slot) => slot.is_confirmed)
  for (const { slot, age_seconds: age, bytes: freed } of confirmed) {
    if (age < keptSeconds) continue
    await truncateSlot(sql, slot)
    bytes -= freed
  }
  for (const { slot, age_seconds: age, is_confirmed: isConfirmed, bytes: freed } of slots) {
    if (isConfirmed || (bytes < logBytes && age < maxKeptSeconds)) continue
    await truncateSlot(sql, slot)
    bytes -= freed
    dropped.inc({ source })
    log.error(
      { slot },
      'a day of the event log was removed that a consumer has not confirmed: events are lost',
    )
  }
  if (bytes > logBytes * warnFrom && confirmed.length < slots.length) {
    log.warn(
      { bytes, max_bytes: logBytes },
      'a consumer does not confirm its events: if the event log reaches EVENT_LOG_MAX_BYTES, they are removed',
    )
  }
  await pruneEpochs(sql)
}
