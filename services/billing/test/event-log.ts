import { fromBinary } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { startLoop } from '@licensing/process/loop'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { toWebhook } from '@licensing/proto/webhook-events'
import { eventually } from '@licensing/test-support/poll'

/** The events that vendors are sent, read from the services' event logs. */
export interface EventLog {
  /** The events of one account, in the order of each service: `{type, …data.object}`. */
  of(accountId: string): ({ type: string } & Record<string, unknown>)[]
  /** All events of one account, also internal ones. */
  raw(accountId: string): Event[]
  /** Resolves when all events are read that the services had committed at the time of the call. */
  caughtUp(): Promise<void>
  stop(): Promise<void>
}

// Both databases are polled for as long as a test file runs.
const pollMs = 20

/** @param services their databases */
export function startEventLog(services: Database[]): EventLog {
  const events: Event[] = []
  const logs = services.map((sql) => ({ sql, read: Array.from({ length: 8 }, () => 0n) }))
  const readNext = async ({ sql, read }: (typeof logs)[number]) => {
    const rows = await sql<{ partition: number; number: bigint; batch: Buffer }[]>`
      select log.partition, log.number, log.events as batch from event_log log
      join unnest(${read.map(String)}::bigint[]) with ordinality as done (number, at) on done.at = log.partition + 1
      where log.number > done.number order by log.partition, log.number`
    for (const { partition, number, batch } of rows) {
      for (const { event } of fromBinary(EventBatchSchema, batch).events) {
        events.push(fromBinary(EventSchema, event))
      }
      read[partition] = number
    }
    // Without a consumer that confirms, an account with many events gets no further numbers.
    if (rows.length === 0) return
    await sql`
      insert into event_log_readers (consumer, partition, epoch, number)
      select 'notifier', at - 1, (select max(ordinal) from event_log_epochs), number
      from unnest(${read.map(String)}::bigint[]) with ordinality as done (number, at)
      on conflict (consumer, partition) do update set epoch = excluded.epoch, number = excluded.number`
  }
  const loop = startLoop({
    work: async () => {
      for (const log of logs) await readNext(log)
    },
    everyMs: pollMs,
    failed: () => {},
    isOutage: () => false,
    retry: { firstMs: pollMs, maxMs: pollMs },
  })
  const raw = (accountId: string) => events.filter((event) => event.accountId === accountId)
  return {
    raw,
    async caughtUp() {
      for (const { sql, read } of logs) {
        await eventually(async () => expectNone(await sql`select from outbox limit 1`))
        const [state] = await sql<{ numbers: bigint[] }[]>`select numbers from event_log_state`
        await eventually(() => state!.numbers.every((number, partition) => read[partition]! >= number))
      }
    },
    of: (accountId) =>
      raw(accountId).flatMap((event) => {
        const webhook = toWebhook(event)
        return webhook ? [{ type: webhook.type, ...webhook.object }] : []
      }),
    stop: () => loop.stop(),
  }
}

function expectNone(rows: readonly unknown[]): void {
  if (rows.length > 0) throw new Error('events wait in the outbox')
}
