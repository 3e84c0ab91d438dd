import { headers } from 'nats'
import type { JetStreamClient, NatsConnection, PubAck } from 'nats'
import { eventIdHeader } from './received.ts'

export interface Message {
  id: string
  subject: string
  payload: Uint8Array
  traceParent: string | null
}

// A relay's transaction is open meanwhile.
const oneByOneAtOnce = 100

/**
 * Publishes messages to a stream that has no other sender, so that none is stored before one that comes before it here.
 * Some may be in the stream already, in any order: a sender before this one died, and what it did not see was committed
 * since.
 *
 * @returns how many of them are stored, from the first on
 * @throws NatsError where not even the first is
 */
export async function publishInOrder(
  connection: NatsConnection,
  js: JetStreamClient,
  [first, ...others]: [Message, ...Message[]],
): Promise<number> {
  const start = await publishKnown(js, first)
  // A first one that is new ends the stream now: all others are new, or the chain breaks at those that are not.
  if (!start.duplicate && others.length > 1) {
    const end = await publishChain(connection, js, first, others).catch(() => undefined)
    // As far apart in the stream as here: each is stored.
    if (end && !end.duplicate && end.seq === start.seq + others.length) return 1 + others.length
  }
  let stored = 1
  for (const message of others.slice(0, oneByOneAtOnce)) {
    const answer = await publishKnown(js, message).catch(() => undefined)
    if (!answer) break
    stored += 1
  }
  return stored
}

/**
 * Publishes a message whose answer says for certain that it is stored. A replicated stream remembers an id before it
 * decides about the message, and keeps it where it then refuses: such a message is a duplicate of none (`seq` 0). It is
 * sent again without id, and consumers know a second copy by the event's own.
 */
async function publishKnown(js: JetStreamClient, message: Message): Promise<PubAck> {
  const answer = await publish(js, message)
  if (!answer.duplicate || answer.seq > 0) return answer
  const head = headersOf(message)
  head.set(eventIdHeader, message.id)
  return js.publish(message.subject, message.payload, { headers: head })
}

/**
 * Sends messages without waiting in between. Each names the one before it, so that JetStream refuses all that follow
 * one that it did not store. Only the last is answered: an answer costs this process 48 µs, a message 12.
 */
async function publishChain(
  connection: NatsConnection,
  js: JetStreamClient,
  first: Message,
  others: Message[],
): Promise<PubAck> {
  let before = first
  for (const message of others.slice(0, -1)) {
    const head = headersOf(message)
    head.set('Nats-Msg-Id', message.id)
    head.set('Nats-Expected-Last-Msg-Id', before.id)
    connection.publish(message.subject, message.payload, { headers: head })
    before = message
  }
  return publish(js, others.at(-1)!, before.id)
}

async function publish(js: JetStreamClient, message: Message, after?: string): Promise<PubAck> {
  return js.publish(message.subject, message.payload, {
    msgID: message.id,
    headers: headersOf(message),
    ...(after !== undefined && { expect: { lastMsgID: after } }),
  })
}

function headersOf({ traceParent }: Message) {
  const head = headers()
  if (traceParent) head.set('traceparent', traceParent)
  return head
}
