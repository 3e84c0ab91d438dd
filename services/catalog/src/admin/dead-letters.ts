import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { DeadLetter } from '@licensing/proto/dead-letters'
import type { Command, ConsumingService } from './command.ts'
import { consumingServices, Refusal, UsageError } from './command.ts'

// One call processes up to a hundred events.
const timeoutMs = 55_000

export const deadLetters: Command = {
  synopsis: 'list|retry|discard [--service licensing|notifier] [--id ID]',
  summary: 'lists the events that a service could not process, processes them again, or discards one',
  options: { service: { required: false }, id: { required: false } },
  positionals: ['action'],
  async run({ deadLetters: callsOf }, { action, service, id }) {
    if (action === 'discard') return [JSON.stringify(await discard(callsOf, service, id))]
    if (action !== 'list' && action !== 'retry')
      throw new UsageError(`unknown action of dead-letters: ${action}`)
    if (id !== undefined) throw new UsageError('--id is only for discard')
    const lines: object[] = []
    for (const name of service === undefined ? consumingServices : [named(service)]) {
      const calls = callsOf(name)
      if (action === 'list') {
        const { deadLetters: letters } = await calls.listDeadLetters({}, { timeoutMs })
        lines.push(...letters.map((letter) => ({ service: name, ...described(letter) })))
        continue
      }
      for (let afterId = 0n; ;) {
        const { outcomes } = await calls.retryDeadLetters({ afterId }, { timeoutMs })
        if (outcomes.length === 0) break
        afterId = outcomes.at(-1)!.deadLetter!.id
        for (const { deadLetter, failure } of outcomes) {
          lines.push({ service: name, ...described(deadLetter!), failure: failure ?? null })
        }
      }
    }
    const failed = lines.filter((line) => 'failure' in line && line.failure !== null)
    const printed = lines.map((line) => JSON.stringify(line))
    if (failed.length > 0) throw new Refusal(`${failed.length} failed again:\n${printed.join('\n')}`)
    return printed
  },
}

async function discard(
  callsOf: Parameters<Command['run']>[0]['deadLetters'],
  service: string | undefined,
  id: string | undefined,
): Promise<object> {
  if (service === undefined || id === undefined) throw new UsageError('discard needs --service and --id')
  if (!/^[1-9][0-9]{0,17}$/.test(id)) throw new UsageError(`--id must be a number from list, not ${id}`)
  const name = named(service)
  const { discarded } = await callsOf(name).discardDeadLetter({ id: BigInt(id) }, { timeoutMs })
  if (!discarded) throw new Refusal(`${name} has no dead letter ${id}`)
  return { service: name, id: Number(id), discarded }
}

function named(service: string): ConsumingService {
  const known = consumingServices.find((name) => name === service)
  if (!known) throw new UsageError(`--service must be ${consumingServices.join(' or ')}, not ${service}`)
  return known
}

function described({ id, source, eventId, accountId, error, failedAt }: DeadLetter): object {
  return {
    id: Number(id),
    source,
    event_id: eventId,
    account_id: accountId,
    error,
    failed_at: failedAt ? timestampDate(failedAt).toISOString() : null,
  }
}
