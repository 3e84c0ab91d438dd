import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { Nats } from '@licensing/events/connection'
import { partitionOf } from '@licensing/events/partitions'
import type { NewEvent } from '@licensing/events/outbox'
import { subjectOf } from '@licensing/proto/event-streams'
import type { Source } from '@licensing/proto/event-streams'
import { ensureStream } from '@licensing/events/streams'
import type { Event } from '@licensing/proto/events'
import { EventSchema } from '@licensing/proto/events'
import { eventName } from '@licensing/proto/webhook-events'
import { headers } from 'nats'

/** An event as another service would make it. */
export function givenEvent({ accountId, applicationId, payload, occurredAt }: NewEvent): Event {
  return create(EventSchema, {
    id: newId('evt'),
    accountId,
    applicationId,
    occurredAt: timestampFromDate(occurredAt ?? new Date()),
    payload,
  })
}

/** Publishes events as the relay of a service does, in order. */
export async function publish(
  nats: Nats,
  events: Event[],
  options: { source?: Source; traceParent?: string; repeat?: boolean } = {},
): Promise<void> {
  const { source = 'licensing', traceParent, repeat = false } = options
  await ensureStream(await nats.connection.jetstreamManager(), source, 1)
  const jetstream = nats.connection.jetstream()
  await Promise.all(
    events.map((event) => {
      const extras = headers()
      if (traceParent) extras.set('traceparent', traceParent)
      const name = event.payload.case === undefined ? 'of_another_release' : eventName(event)
      const subject = subjectOf(source, partitionOf(event.accountId), name)
      // JetStream drops a second message of the same id: a repeat that gets past it has another.
      const msgID = repeat ? newId('evt') : event.id
      return jetstream.publish(subject, toBinary(EventSchema, event), { msgID, headers: extras })
    }),
  )
}
