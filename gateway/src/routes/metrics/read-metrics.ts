import type { ApplicationDay } from '@licensing/proto/licensing'
import { z } from 'zod'
import { dayMs, dayText, toProto } from '../../fields/time.ts'
import type { Services } from '../../services.ts'

const count = z.int()

type Change = Exclude<
  keyof ApplicationDay,
  '$typeName' | '$unknown' | 'day' | `active${string}` | `activations${string}`
>

/** The changes of licences that are counted by day. */
const changes: Record<Change, z.ZodInt> = {
  issued: count,
  imported: count,
  created: count.describe('Licences created by payments.'),
  suspended: count,
  reactivated: count,
  revoked: count,
  expired: count,
  retired: count,
  downgraded: count,
}

const ofChanges = (valueOf: (change: Change) => number) =>
  Object.fromEntries((Object.keys(changes) as Change[]).map((change) => [change, valueOf(change)])) as Record<
    Change,
    number
  >

type Step = 'day' | 'hour'

export const stepMs: Record<Step, number> = { day: dayMs, hour: dayMs / 24 }

/** The steps from `from` (inclusive) to `end` (exclusive). No step is in the future. */
interface Span {
  accountId: string
  applicationId: string
  from: number
  end: number
  step: Step
}

type Read<M extends MetricName> = (services: Services, span: Span) => Promise<Points<M>>

const days = ({ accountId, applicationId, from, end }: Span) => ({
  accountId,
  applicationId,
  from: dayText(from),
  to: dayText(end - 1),
})

const starts = ({ from, end, step }: Span) =>
  Array.from({ length: Math.ceil((end - from) / stepMs[step]) }, (_, at) => from + at * stepMs[step])

const dayStart = ({ day }: { day: string }) => Date.parse(day)

const licences: Read<'licences'> = async ({ licensing }, span) => {
  const answer = await licensing.getApplicationDays(days(span))
  const daysByStart = new Map(answer.days.map((day) => [dayStart(day), day]))
  let active = answer.activeBefore
  return new Map(
    starts(span).map((at) => {
      const day = daysByStart.get(at)
      active += day?.activeChange ?? 0n
      return [at, { ...ofChanges((change) => Number(day?.[change] ?? 0)), active: Number(active) }]
    }),
  )
}

const activations: Read<'activations'> = async ({ licensing }, span) => {
  const answer = await licensing.getApplicationDays(days(span))
  return new Map(
    answer.days.map((day) => [
      dayStart(day),
      {
        new: Number(day.activationsNew),
        freed: Number(day.activationsFreed),
        seen: Number(day.activationsSeen),
      },
    ]),
  )
}

const deliveries: Read<'deliveries'> = async ({ notifier }, span) => {
  const { accountId, applicationId, step } = span
  const { points } = await notifier.getDeliveryMetrics({
    accountId,
    applicationId,
    from: toProto(span.from),
    to: toProto(span.end),
    step,
  })
  return new Map(
    points.map((point) => [
      Number(point.at!.seconds) * 1000,
      {
        delivered: Number(point.delivered),
        failed_attempts: Number(point.failedAttempts),
        p50_ms: point.p50Ms === undefined ? null : Number(point.p50Ms),
        p95_ms: point.p95Ms === undefined ? null : Number(point.p95Ms),
      },
    ]),
  )
}

const payments: Read<'payments'> = async ({ billing }, span) => {
  const answer = await billing.getPaymentDays(days(span))
  const byDay = Map.groupBy(answer.days, dayStart)
  return new Map(
    [...byDay].map(([at, rows]) => [
      at,
      Object.fromEntries(
        rows.map((row) => [
          row.currency,
          {
            count: Number(row.count),
            gross_minor: Number(row.grossMinor),
            refunded_minor: Number(row.refundedMinor),
            fee_minor: Number(row.feeMinor),
          },
        ]),
      ),
    ]),
  )
}

/** Reads each metric from the service that counts it. */
export const readMetric: { [M in MetricName]: Read<M> } = { licences, activations, deliveries, payments }

/** Values of a step in which nothing happened, and of a future step. */
export const nothing: { [M in MetricName]: Points<M> extends Map<number, infer Values> ? Values : never } = {
  licences: { ...ofChanges(() => 0), active: 0 },
  activations: { new: 0, freed: 0, seen: 0 },
  deliveries: { delivered: 0, failed_attempts: 0, p50_ms: null, p95_ms: null },
  payments: {},
}

const paymentValues = z
  .strictObject({
    count: count.describe('Number of payments.'),
    gross_minor: count.describe('Sum of the payments.'),
    refunded_minor: count.describe('Refunds and chargebacks of this day, including those of older payments.'),
    fee_minor: count.describe('Fees of the payments of this day, less their credits.'),
  })
  .describe('In minor units of the currency.')

/** The values of a point of each metric. */
export const metricValues = {
  licences: z.strictObject({
    ...changes,
    active: count.describe('Active licences at the end of the step.'),
  }),
  activations: z.strictObject({
    new: count,
    freed: count.describe('Activations freed by the product or by the vendor.'),
    seen: count.describe(
      'Activations that called home, each counted once, including those that were freed later.',
    ),
  }),
  deliveries: z.strictObject({
    delivered: count,
    failed_attempts: count,
    p50_ms: count
      .nullable()
      .describe(
        'Median time from the event to the first 2xx response, in milliseconds; null if nothing was delivered.',
      ),
    p95_ms: count.nullable(),
  }),
  payments: z.record(z.string(), paymentValues).describe('By currency.'),
} as const

export type MetricName = keyof typeof metricValues

/** A metric's values by the start of the step, in milliseconds. */
type Points<M extends MetricName> = Map<number, z.output<(typeof metricValues)[M]>>
