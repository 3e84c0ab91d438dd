import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { limit } from '../../fields/page.ts'
import { timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import { apiVersionPattern } from '../../openapi/webhooks.ts'
import type { Route } from '../../route.ts'

const envelopeSchema = z
  .object({
    id: id('evt'),
    type: z.string(),
    api_version: z.string().meta({ pattern: apiVersionPattern, examples: ['2026-11-01'] }),
    created_at: timestampText,
    sequence: z.int().describe('Number of the event in the account, without gaps.'),
    account_id: id('acct'),
    application_id: id('app'),
    data: z.object({ object: z.record(z.string(), z.unknown()) }),
    previous: z.record(z.string(), z.unknown()).nullable(),
  })
  .meta({ id: 'Event' })

const after = z
  .string()
  .meta({
    type: ['integer', 'string'],
    minimum: 0,
    pattern: '^latest$',
    description:
      'Returns the events after this sequence, by default all. `latest` returns no event, and the latest sequence in `next_after`.',
  })
  .transform((value, context) => {
    if (value === 'latest') return value
    if (/^(?:0|[1-9][0-9]{0,15})$/.test(value) && Number.isSafeInteger(Number(value))) return BigInt(value)
    context.addIssue({ code: 'custom', message: 'must be a sequence, a whole number from 0, or latest' })
    return z.NEVER
  })
  .default(0n)

export const eventRoutes: Route[] = [
  vendorRoute({
    method: 'GET',
    path: '/v1/events',
    operationId: 'listEvents',
    tag: 'Webhooks',
    summary: 'List events in order of their sequence',
    description:
      'Use it to catch up after missed deliveries. An API key of one application gets the events of that application.',
    scopes: ['read'],
    query: z.strictObject({ after, limit }),
    answer: z.strictObject({
      data: z.array(envelopeSchema),
      next_after: z
        .int()
        .describe(
          'The last sequence in `data`, or `after` if there is none. Pass it as `after` in the next call.',
        ),
    }),
    handle: async ({ services, accountId, onlyApplicationId, query }) => {
      if (query.after === 'latest') {
        const { sequence } = await services.notifier.getLatestSequence({ accountId })
        return { body: { data: [], next_after: Number(sequence) } }
      }
      const { envelopes, nextAfter } = await services.notifier.listEvents({
        accountId,
        onlyApplicationId,
        after: query.after,
        limit: query.limit,
      })
      // The envelopes are the exact JSON that was sent, so they are not parsed and written again.
      return { json: `{"data":[${envelopes.join(',')}],"next_after":${nextAfter}}` }
    },
  }),
]
