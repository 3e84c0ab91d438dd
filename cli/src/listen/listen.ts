import { randomBytes } from 'node:crypto'
import { webhookEventTypes } from '@licensing/sdk/webhooks'
import type { Command } from '../command/command.ts'
import { webAddress } from '../command/connection.ts'
import { UsageError } from '../command/failures.ts'
import { followEvents } from './follow-events.ts'
import { forward } from './forward.ts'

export const listen: Command = {
  name: 'listen',
  summary: 'Forward the account’s events to a local URL, signed like webhook deliveries',
  options: {
    'forward-to': { type: 'string', value: 'URL', help: 'URL that receives the events; http or https' },
    events: { type: 'string', value: 'A,B', help: 'forward only these event types' },
    after: {
      type: 'string',
      value: 'SEQUENCE',
      help: 'start after this sequence, instead of with new events',
    },
  },
  examples: [
    'listen --forward-to http://localhost:3000/webhooks',
    'listen --forward-to http://localhost:3000/webhooks --events licence.suspended,licence.revoked',
    'listen --forward-to http://localhost:3000/webhooks --after 41 --json',
  ],
  async run({ option, connection, out, signal }) {
    const address = option('forward-to')
    if (address === undefined) throw new UsageError('listen needs --forward-to URL')
    const target = webAddress(address, '--forward-to')
    const types = typesOf(option('events'))
    const after = sequenceOf(option('after'))
    // A new secret for each run. It signs only the events that this run forwards.
    const secret = `whsec_${randomBytes(32).toString('base64url')}`
    const events = followEvents({
      connection,
      after,
      signal,
      onStart: () => out.line({ secret }, `secret ${secret}`),
      onUnavailable: ({ status, code }) =>
        out.message(`the licensing service is unavailable (${status === 0 ? code : status}); trying again`),
      onAvailable: () => out.message('the licensing service is available again'),
    })
    for await (const event of events) {
      if (types !== 'all' && !types.has(event.type)) continue
      const { sequence, type } = event
      const { status, reason } = await forward(event, { target, secret })
      const isAccepted = status !== null && status >= 200 && status < 300
      out.line({ sequence, type, status, ...(reason !== undefined && { reason }) }, [
        `${sequence} ${type} `,
        { text: String(status ?? reason), colour: isAccepted ? 'green' : 'red' },
      ])
      if (signal.aborted) break
    }
    return 0
  },
}

function sequenceOf(text: string | undefined): number | 'latest' {
  if (text === undefined) return 'latest'
  const sequence = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(sequence)) return sequence
  throw new UsageError('--after takes a sequence: a whole number from 0')
}

/** Reads a list of types, separated by commas. Without a list, or for `*`: all types. */
function typesOf(list: string | undefined): ReadonlySet<string> | 'all' {
  if (list === undefined || list.trim() === '*') return 'all'
  const known: readonly string[] = webhookEventTypes
  const types = list.split(',').map((type) => type.trim())
  const unknown = types.find((type) => !known.includes(type))
  if (unknown === undefined) return new Set(types)
  throw new UsageError(`unknown event: ${unknown === '' ? '(none)' : unknown}; known: ${known.join(', ')}`)
}
