import { create, fromBinary } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import type { NewEvent } from '@licensing/events/outbox'
import { givenProducer } from '@licensing/events/testing/producer'
import type { Producer } from '@licensing/events/testing/producer'
import type { Source } from '@licensing/proto/event-streams'
import { EventBatchSchema } from '@licensing/proto/event-log'
import type { Event } from '@licensing/proto/events'
import { EventSchema } from '@licensing/proto/events'
import type { OwnNats } from '@licensing/test-support/nats'

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

/** An event about a licence of its own. */
export function givenLicenceEvent(
  of: { accountId: string; applicationId: string },
  type: 'licenceSuspended' | 'licenceRetired' = 'licenceSuspended',
  occurredAt?: Date,
): Event {
  const status = type === 'licenceRetired' ? 'retired' : 'suspended'
  const payload = { case: type, value: { licenceId: newId('lic'), status } } as NewEvent['payload']
  return givenEvent({ ...of, payload, ...(occurredAt && { occurredAt }) })
}

const producers = new Map<OwnNats, Map<Source, Promise<Producer>>>()

/** Commits events as another service does, in order. `stopProducers` stops the producers that this starts. */
export async function publish(
  { natsServer }: { natsServer: OwnNats },
  events: Event[],
  options: { source?: Source; traceParent?: string } = {},
): Promise<void> {
  const { source = 'licensing', traceParent } = options
  const ofServer = producers.get(natsServer) ?? new Map<Source, Promise<Producer>>()
  producers.set(natsServer, ofServer)
  const producer = ofServer.get(source) ?? givenProducer(natsServer.urlOf(source), source)
  ofServer.set(source, producer)
  await (await producer).publish(events, traceParent)
}

export async function stopProducers(natsServer: OwnNats): Promise<void> {
  const ofServer = producers.get(natsServer)?.values() ?? []
  producers.delete(natsServer)
  for (const producer of ofServer) await (await producer)[Symbol.asyncDispose]()
}

/** The entries of the audit log that the notifier has made about the account, in order. */
export async function entriesOf({ sql, of }: { sql: Database; of: { accountId: string } }) {
  const rows = await sql<{ events: Buffer }[]>`
    select events from (
      select events, 0 as part, number as place from event_log union all select payload, 1, position from outbox
    ) all_events order by part, place`
  return rows.flatMap(({ events }) =>
    fromBinary(EventBatchSchema, events).events.flatMap(({ event }) => {
      const { accountId, applicationId, requestId, payload } = fromBinary(EventSchema, event)
      if (accountId !== of.accountId || payload.case !== 'auditEntry') return []
      const changes = JSON.parse(payload.value.changes) as object
      return [{ ...payload.value, applicationId, requestId, changes }]
    }),
  )
}
