import { array, boolean, constant, constantFrom, nat, oneof, option, record } from 'fast-check'
import type { Arbitrary } from 'fast-check'

// Few names of each kind, so that many calls concern the same licence or plan.
const few = nat({ max: 3 })
const plan = nat({ max: 1 })
const days = constantFrom(-1, 10, 20)
// Any paid purchase, or the purchase that its licence rests on.
const purchase = { purchase: nat(), current: boolean() }
export const calls = array(
  oneof(
    record({ call: constant('issue' as const), key: few, body: plan, plan }),
    record({ call: constant('import' as const), key: few, plan }),
    record({
      call: constant('pay' as const),
      payment: nat({ max: 5 }),
      customer: plan,
      plan,
      days: option(days),
    }),
    {
      weight: 3,
      arbitrary: record({
        call: constant('verb' as const),
        verb: constantFrom('suspend' as const, 'reactivate' as const, 'revoke' as const, 'retire' as const),
        licence: nat(),
      }),
    },
    {
      weight: 3,
      arbitrary: record({
        call: constant('consequence' as const),
        name: constantFrom(
          'failed payments' as const,
          'an inquiry' as const,
          'an inquiry that closes' as const,
          'a full refund' as const,
          'a chargeback' as const,
          'a partial refund' as const,
          'a cancelled subscription' as const,
        ),
        ...purchase,
        cause: few,
      }),
    },
    {
      weight: 2,
      arbitrary: record({ call: constant('renew' as const), ...purchase, cause: few, days }),
    },
    {
      weight: 2,
      arbitrary: record({
        call: constant('update' as const),
        licence: nat(),
        days: option(constantFrom(10, 20)),
      }),
    },
    record({ call: constantFrom('archive' as const, 'restore' as const), plan }),
    record({ call: constant('sweep' as const) }),
  ),
  { minLength: 20, maxLength: 80 },
)

export type Call = typeof calls extends Arbitrary<(infer T)[]> ? T : never
