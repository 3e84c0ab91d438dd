import type { Stack } from '@licensing/test-support/stack-shape'
import { randomBytes } from 'node:crypto'
import { scaledSeconds } from '../bench-scale.ts'
import { load } from '../load.ts'
import { atLeast } from '../report.ts'
import type { Figure } from '../report.ts'
import { withKey } from '../vendor.ts'
import type { Population } from './population.ts'

const batch = 500

/** Imports of 500 licences compared with single issues, both over one connection. */
export async function imports(stack: Stack, { emptyPlan }: Population): Promise<Figure[]> {
  const headers = withKey(stack)
  const path = `/v1/apps/${stack.appId}/licences`
  const options = { connections: 1, seconds: scaledSeconds(8) }
  const single = await load(
    stack.gatewayUrl,
    201,
    () => ({
      method: 'POST',
      path,
      headers: { ...headers, 'idempotency-key': randomBytes(12).toString('hex') },
      body: JSON.stringify({ external_ref: 'customer-1', plan_id: emptyPlan }),
    }),
    options,
  )
  const many = await load(
    stack.gatewayUrl,
    200,
    (n) => ({
      method: 'POST',
      path: `${path}/import`,
      headers,
      body: JSON.stringify({
        items: Array.from({ length: batch }, (_, at) => ({
          legacy_key: `import-${n}-${at}`,
          external_ref: `customer-${at}`,
          plan_id: emptyPlan,
        })),
      }),
    }),
    options,
  )
  if (single.wrong + many.wrong > 0) throw new Error('an issue or an import was refused')
  const singles: Figure = {
    name: 'single issues, one connection',
    value: single.perSecond,
    unit: 'licences/s',
  }
  return [singles, atLeast('imports of 500', many.perSecond * batch, 'licences/s', singles, 5)]
}
