import type { MissedEvent } from '@licensing/proto/missed-events'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Command, ConsumingService } from './command.ts'
import { consumingServices, Refusal, UsageError } from './command.ts'

// A hundred events at a time.
const timeoutMs = 55_000

export const missedEvents: Command = {
  synopsis: 'list|consume [--service licensing|notifier]',
  summary: 'lists events that a service never consumed, or consumes them now',
  options: { service: { required: false } },
  positionals: ['action'],
  async run({ missedEvents: callsOf }, { action, service }) {
    if (action !== 'list' && action !== 'consume')
      throw new UsageError(`unknown action of missed-events: ${action}`)
    const lines: object[] = []
    for (const name of servicesOf(service)) {
      const calls = callsOf(name)
      if (action === 'list') {
        const { events } = await calls.listMissedEvents({}, { timeoutMs })
        lines.push(...events.map((event) => ({ service: name, ...described(event) })))
        continue
      }
      for (let after: MissedEvent | undefined; ;) {
        const { outcomes } = await calls.consumeMissedEvents(
          { afterStream: after?.stream ?? '', afterSequence: after?.sequence ?? 0n },
          { timeoutMs },
        )
        if (outcomes.length === 0) break
        after = outcomes.at(-1)!.event
        for (const { event, failure } of outcomes) {
          lines.push({ service: name, ...described(event!), failure: failure ?? null })
        }
      }
    }
    const failed = lines.filter((line) => 'failure' in line && line.failure !== null)
    const printed = lines.map((line) => JSON.stringify(line))
    if (failed.length > 0) throw new Refusal(`${failed.length} could not be consumed:\n${printed.join('\n')}`)
    return printed
  },
}

function servicesOf(service: string | undefined): readonly ConsumingService[] {
  if (service === undefined) return consumingServices
  const known = consumingServices.find((name) => name === service)
  if (!known) throw new UsageError(`--service must be ${consumingServices.join(' or ')}, not ${service}`)
  return [known]
}

function described({ stream, sequence, eventId, foundAt }: MissedEvent): object {
  return {
    stream,
    sequence: Number(sequence),
    event_id: eventId,
    found_at: foundAt ? timestampDate(foundAt).toISOString() : null,
  }
}
