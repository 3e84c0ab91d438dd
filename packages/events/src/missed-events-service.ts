import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { implement } from '@licensing/grpc/server'
import { MissedEventsService } from '@licensing/proto/missed-events'
import type { Consumer } from './consumer.ts'
import type { MissedEvent } from './missed-queries.ts'

const listed = 1_000
const consumedAtOnce = 100

/** What an operator sees of events that were never consumed, and does about them. */
export function missedEventsService(consumers: Consumer[]) {
  const byStream = consumers.toSorted((a, b) => (a.stream < b.stream ? -1 : 1))
  return implement(MissedEventsService, {
    async listMissedEvents() {
      const lists = await Promise.all(byStream.map((consumer) => consumer.missed(listed)))
      const total = lists.reduce((sum, { count }) => sum + count, 0)
      const events = lists.flatMap(({ events: found }) => found).slice(0, listed)
      return { events: events.map(toProto), total: BigInt(total) }
    },
    async consumeMissedEvents({ afterStream, afterSequence }) {
      for (const consumer of byStream) {
        if (consumer.stream < afterStream) continue
        const after = consumer.stream === afterStream ? afterSequence : 0n
        const outcomes = await consumer.consumeMissed(after, consumedAtOnce)
        if (outcomes.length === 0) continue
        return { outcomes: outcomes.map(({ event, failure }) => ({ event: toProto(event), failure })) }
      }
      return { outcomes: [] }
    },
  })
}

function toProto({ stream, seq, event_id: eventId, found_at: foundAt }: MissedEvent) {
  return { stream, sequence: seq, eventId, foundAt: timestampFromDate(foundAt) }
}
