import { z } from 'zod'

const count = z.int()

const payments = z
  .strictObject({
    count: count.describe('Payments of the day.'),
    gross_minor: count.describe('What they came to.'),
    refunded_minor: count.describe('Refunds and chargebacks of the day, whenever their payments were.'),
    fee_minor: count.describe('Fees of the day’s payments, less what has been credited of them.'),
  })
  .describe('In minor units of the currency.')

/** What a point of each metric holds. */
export const metricValues = {
  licences: z.strictObject({
    issued: count,
    imported: count,
    created: count.describe('By payments.'),
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
    freed: count.describe('By the product or by the vendor.'),
    seen: count.describe('Activations that called home, each once, freed since or not.'),
  }),
  deliveries: z.strictObject({
    delivered: count,
    failed_attempts: count,
    p50_ms: count.nullable().describe('From the event to its first 2xx; null where nothing was delivered.'),
    p95_ms: count.nullable(),
  }),
  payments: z.record(z.string(), payments).describe('By currency.'),
} as const

export type MetricName = keyof typeof metricValues

/** A metric's values by the start of the step, in milliseconds. */
export type Points<M extends MetricName> = Map<number, z.output<(typeof metricValues)[M]>>
