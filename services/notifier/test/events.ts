import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { NewEvent } from '@licensing/events/outbox'
import { givenProducer } from '@licensing/events/testing/producer'
import type { Producer } from '@licensing/events/testing/producer'
import type { Source } from '@licensing/proto/event-streams'
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
