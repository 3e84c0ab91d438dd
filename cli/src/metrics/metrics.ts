import { Argument } from '@commander-js/extra-typings'
import type { CommandUnknownOpts } from '@commander-js/extra-typings'
import type { Context } from '../command/context.ts'
import { examples } from '../command/examples.ts'
import { memberOption } from '../command/lists.ts'
import { day, members, oneOf } from '../command/parsers.ts'

const metrics = members({ licences: true, activations: true, deliveries: true, payments: true })
const steps = members({ day: true, hour: true })

const DAY_MS = 86_400_000

export function metricsCommand(program: CommandUnknownOpts, { out, service }: Context): void {
  const metric = new Argument('<metric>', 'what to count').argParser(oneOf(metrics, 'metric'))
  metric.argChoices = metrics
  program
    .command('metrics')
    .description('Count what happened to licences, activations, deliveries or payments over time')
    .addArgument(metric)
    .option('--from <date>', 'the first day in UTC; default: 29 days before the last', day)
    .option('--to <date>', 'the last day in UTC; default: today', day)
    .addOption(
      memberOption('--step <step>', 'hour: only deliveries, for at most 7 days', steps).default(
        'day' as const,
      ),
    )
    .addHelpText(
      'after',
      examples('metrics licences', 'metrics deliveries --from 2026-11-01 --to 2026-11-02 --step hour'),
    )
    .action(async (name, { from, to = dayOf(new Date()), step }) => {
      const { backend, appId } = await service()
      const query = { metric: name, from: from ?? dayOf(new Date(Date.parse(to) - 29 * DAY_MS)), to, step }
      const path = { app_id: await appId() }
      const answer = await backend.get('/v1/apps/{app_id}/metrics', { path, query })
      if (out.json) return out.result(answer, [])
      const rows: Record<string, unknown>[] = answer.points.flatMap(({ at, values }) =>
        name === 'payments'
          ? Object.entries(values).map(([currency, amounts]) => ({ at, currency, ...(amounts as object) }))
          : [{ at, ...values }],
      )
      const [first] = rows
      if (first === undefined) return out.message('none found')
      out.list(rows, Object.keys(first))
    })
}

const dayOf = (time: Date) => time.toISOString().slice(0, 10)
