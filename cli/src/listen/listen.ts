import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import { randomBytes } from 'node:crypto'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { eventsOption } from '../command/lists.ts'
import { causeOf } from '../command/output.ts'
import { proxyOf } from '../command/proxy.ts'
import { webAddress, wholeNumber } from '../command/parsers.ts'
import { followEvents } from './follow-events.ts'
import { forward } from './forward.ts'

export function listenCommand(program: CommandUnknownOpts, context: Context): void {
  const { env, out, service, signal, onStop } = context
  program
    .command('listen')
    .description('Forward the account’s events to a local URL, signed like webhook deliveries')
    .requiredOption(
      '--forward-to <url>',
      'URL that receives the events; http or https',
      webAddress('--forward-to'),
    )
    .addOption(eventsOption('forward only these event types, separated by commas').default('*' as const))
    .option('--after <sequence>', 'start after this sequence, instead of with new events', wholeNumber(0))
    .addHelpText(
      'after',
      examples(
        'listen --forward-to http://localhost:3000/webhooks',
        'listen --forward-to http://localhost:3000/webhooks --events licence.suspended,licence.revoked',
        'listen --forward-to http://localhost:3000/webhooks --after 41 --json',
      ),
    )
    .action(async ({ forwardTo: target, events: types, after }) => {
      const { connection } = await service()
      onStop(() => 0)
      // A new secret for each run. It signs only the events that this run forwards.
      const secret = `whsec_${randomBytes(32).toString('base64url')}`
      const where = `the licensing service at ${connection.baseUrl.replace(/\/$/, '')}`
      const events = followEvents({
        connection,
        after: after ?? 'latest',
        signal,
        onStart: () => out.line({ secret }, `secret ${secret}`),
        onUnavailable: (error) => {
          const reason = error.status === 0 ? causeOf(error) : String(error.status)
          const proxy = proxyOf(env, connection.baseUrl)
          out.message(`${where} is unavailable (${proxy ? `${reason}; ${proxy}` : reason}); trying again`)
        },
        onAvailable: () => out.message(`${where} is available again`),
      })
      for await (const event of events) {
        if (types !== '*' && !types.some((type) => type === event.type)) continue
        const { sequence, type } = event
        const { status, reason } = await forward(event, { target, secret, signal })
        if (signal.aborted) return
        const isAccepted = status !== null && status >= 200 && status < 300
        out.line({ sequence, type, status, ...(reason !== undefined && { reason }) }, [
          `${sequence} ${type} `,
          { text: String(status ?? reason), colour: isAccepted ? 'green' : 'red' },
        ])
      }
    })
}
