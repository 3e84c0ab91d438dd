import { z } from 'zod'
import { day, dayMs, dayText, timestampText } from '../../fields/time.ts'
import { vendorRoute, within } from '../../route.ts'
import type { Route } from '../../route.ts'
import { metricValues, nothing, readMetric, stepMs } from './read-metrics.ts'
import type { MetricName } from './read-metrics.ts'

const metrics = Object.keys(metricValues) as [MetricName, ...MetricName[]]
const steps = ['day', 'hour'] as const
const maxDays = { day: 366, hour: 7 }

const query = z
  .strictObject({
    metric: z.enum(metrics),
    from: day.describe('The first day (UTC).'),
    to: day.describe('The last day (UTC), inclusive.'),
    step: z
      .enum(steps)
      .describe('`day` (at most 366 days), or `hour` (at most 7 days, only for `deliveries`).'),
  })
  .superRefine(({ metric, from, to, step }, context) => {
    const refuse = (field: string, message: string) =>
      context.addIssue({ code: 'custom', path: [field], message })
    if (to < from) refuse('to', 'must not be before from')
    if (to - from >= maxDays[step] * dayMs) refuse('to', `must be at most ${maxDays[step]} days with from`)
    if (step === 'hour' && metric !== 'deliveries') refuse('step', 'must be day for this metric')
  })

const values = z.union([
  metricValues.licences,
  metricValues.activations,
  metricValues.deliveries,
  metricValues.payments,
])

export const metricRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/apps/{app_id}/metrics',
    operationId: 'readMetrics',
    tag: 'Metrics',
    summary: 'Get a metric over time',
    description:
      'Returns one point for every step, including steps without data. Data appears within 10 seconds. Payments count on the day on which they occurred.',
    scopes: ['read'],
    query,
    answer: z.strictObject({
      metric: z.enum(metrics),
      step: z.enum(steps),
      from: z.string().meta({ format: 'date' }),
      to: z.string().meta({ format: 'date' }),
      points: z.array(
        z.strictObject({
          at: timestampText.describe('Start of the step.'),
          values: values.describe('The values of the metric.'),
        }),
      ),
    }),
    handle: async (call) => {
      const { metric, from, to, step } = call.query
      const width = stepMs[step]
      const starts = Array.from({ length: (to + dayMs - from) / width }, (_, at) => from + at * width)
      // Future steps are not requested.
      const begun = starts.filter((at) => at <= Date.now())
      const points =
        begun.length === 0
          ? new Map<number, z.output<typeof values>>()
          : await readMetric[metric](call.services, {
              ...within(call),
              from,
              end: begun.at(-1)! + width,
              step,
            })
      return {
        body: {
          metric,
          step,
          from: dayText(from),
          to: dayText(to),
          points: starts.map((at) => ({
            at: new Date(at).toISOString(),
            values: points.get(at) ?? nothing[metric],
          })),
        },
      }
    },
  }),
]
