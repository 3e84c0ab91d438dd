import { z } from 'zod'

const count = z.int()

const payments = z
  .strictObject({
    count: count.describe('Number of payments.'),
    gross_minor: count.describe('Sum of the payments.'),
    refunded_minor: count.describe('Refunds and chargebacks of this day, including those of older payments.'),
    fee_minor: count.describe('Fees of the payments of this day, less their credits.'),
  })
  .describe('In minor units of the currency.')

/** What a point of each metric holds. */
export const metricValues = {
  licences: z.strictObject({
    issued: count,
    imported: count,
    created: count.describe('Licences created by payments.'),
    suspended: count,
    reactivated: count,
    revoked: count,
    expired: count,
    retired: count,
    downgraded: count,
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
  payments: z.record(z.string(), payments).describe('By currency.'),
} as const

export type MetricName = keyof typeof metricValues

/** A metric's values by the start of the step, in milliseconds. */
export type Points<M extends MetricName> = Map<number, z.output<(typeof metricValues)[M]>>
