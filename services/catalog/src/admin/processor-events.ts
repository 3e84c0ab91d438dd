import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { ProcessorEvent } from '@licensing/proto/billing-operations'
import type { Command } from './command.ts'
import { UsageError } from './command.ts'

const actions = ['list', 'retry', 'discard']

export const processorEvents: Command = {
  synopsis: 'list | retry EVENT_ID | discard EVENT_ID',
  summary:
    'lists payment processor events that are parked or failing, retries one, or discards it permanently',
  options: {},
  positionals: ['action', 'EVENT_ID?'],
  async run({ billing }, given) {
    const { action } = given
    const eventId = given['EVENT_ID?']
    if (!actions.includes(action!)) throw new UsageError(`unknown action of processor-events: ${action}`)
    if (action === 'list') {
      if (eventId !== undefined) throw new UsageError(`unexpected argument ${eventId}`)
      const { events } = await billing().listProcessorEvents({})
      return events.map((event) => JSON.stringify(described(event)))
    }
    if (eventId === undefined) throw new UsageError('missing: EVENT_ID')
    if (action === 'retry') await billing().retryProcessorEvent({ eventId })
    else await billing().discardProcessorEvent({ eventId })
    return [JSON.stringify({ event_id: eventId, [action === 'retry' ? 'retried' : 'discarded']: true })]
  },
}

function described({
  eventId,
  merchant,
  type,
  receivedAt,
  attempts,
  parked,
  reason,
}: ProcessorEvent): object {
  return {
    event_id: eventId,
    merchant,
    type,
    received_at: receivedAt ? timestampDate(receivedAt).toISOString() : null,
    attempts,
    parked,
    reason: reason ?? null,
  }
}
