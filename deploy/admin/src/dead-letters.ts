import { timestampDate } from '@bufbuild/protobuf/wkt'
import { DeadLettersService } from '@licensing/proto/dead-letters'
import type { DeadLetter } from '@licensing/proto/dead-letters'
import { Refusal, servicesOf, UsageError } from './command.ts'
import type { AdminDependencies, Command } from './command.ts'

/** The services that consume events. */
const consumers = ['catalog', 'licensing', 'notifier'] as const

// One call processes up to a hundred events.
const timeoutMs = 55_000

export const deadLetters: Command = {
  synopsis: 'list|retry|discard [--service catalog|licensing|notifier] [--id ID]',
  summary: 'lists the events that a service could not process, processes them again, or discards one',
  options: { service: { required: false }, id: { required: false } },
  positionals: ['action'],
  async run({ callsOf }, { action, service, id }) {
    if (action === 'discard') return [await discard(callsOf, service, id)]
    if (action !== 'list' && action !== 'retry')
      throw new UsageError(`unknown action of dead-letters: ${action}`)
    if (id !== undefined) throw new UsageError('--id is only for discard')
    const lines: object[] = []
    for (const name of servicesOf(consumers, service)) {
      const calls = callsOf(name, DeadLettersService)
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
    if (failed.length === 0) return lines
    const printed = lines.map((line) => JSON.stringify(line))
    throw new Refusal(`${failed.length} failed again:\n${printed.join('\n')}`)
  },
}

async function discard(
  callsOf: AdminDependencies['callsOf'],
  service: string | undefined,
  id: string | undefined,
): Promise<object> {
  if (service === undefined || id === undefined) throw new UsageError('discard needs --service and --id')
  if (!/^[1-9][0-9]{0,17}$/.test(id)) throw new UsageError(`--id must be a number from list, not ${id}`)
  const [name] = servicesOf(consumers, service)
  const { discarded } = await callsOf(name!, DeadLettersService).discardDeadLetter(
    { id: BigInt(id) },
    { timeoutMs },
  )
  if (!discarded) throw new Refusal(`${name} has no dead letter ${id}`)
  return { service: name, id: Number(id), discarded }
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
