import type { Stack } from '@licensing/test-support/stack-shape'
import { scaledSeconds } from '../bench-scale.ts'
import { issues } from '../calls.ts'
import { load } from '../load.ts'
import { atLeast } from '../report.ts'
import type { Figure } from '../report.ts'
import { withKey } from '../vendor.ts'
import type { Population } from './population.ts'

const batch = 500

/** Imports of 500 licences compared with single issues, both over one connection. */
export async function imports(stack: Stack, { emptyPlan }: Population): Promise<Figure[]> {
  const headers = withKey(stack)
  const options = { connections: 1, seconds: scaledSeconds(8) }
  const [status, next] = issues(stack, emptyPlan)
  const single = await load(stack.gatewayUrl, status, next, options)
  const many = await load(
    stack.gatewayUrl,
    200,
    (n) => ({
      method: 'POST',
      path: `/v1/apps/${stack.appId}/licences/import`,
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
