import { create } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import type { PurchaseEffect } from '@licensing/proto/purchases'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { changesOf, eventTypes, givenLicence, givenPlan, history, verbOn } from '../../test/makers.ts'
import { apply, buy, daysAgo, inDays, unique } from '../../test/purchases.ts'

let harness: Harness
let planId: string
beforeAll(async () => {
  harness = await startHarness()
  planId = (await givenPlan(harness)).id
})
afterAll(() => harness[Symbol.asyncDispose]())

const now = async (licence: { id: string }): Promise<Licence> =>
  (await harness.licensing.getLicence(verbOn(harness, licence))).licence!

describe('updates_until', () => {
  interface Step {
    purchase: string
    kind: 'paid' | 'renewed' | 'refunded' | 'canceled'
    on: number
    /** The day until which the payment includes updates. */
    until?: number
  }
  const paid = (purchase: string, on: number, until?: number): Step => {
    return { purchase, kind: 'paid', on, ...(until !== undefined && { until }) }
  }
  const renewed = (purchase: string, on: number, until?: number): Step => {
    return { ...paid(purchase, on, until), kind: 'renewed' }
  }

  /**
   * Events in the order of the processor's clock, and the day until which the licence includes updates after them.
   */
  const stories: [title: string, steps: Step[], until: number | undefined][] = [
    ['one payment', [paid('a', 1, 100)], 100],
    ['a payment that says nothing', [paid('a', 1)], undefined],
    ['a payment after one that says nothing', [paid('a', 1), paid('b', 2, 100)], undefined],
    ['a payment that says nothing after another', [paid('a', 1, 100), paid('b', 2)], 100],
    ['a later payment', [paid('a', 1, 100), paid('b', 2, 200)], 200],
    ['a later payment that includes less', [paid('a', 1, 200), paid('b', 2, 100)], 200],
    ['three payments', [paid('a', 1, 100), paid('b', 2), paid('c', 3, 150)], 150],
    ['a renewal', [paid('a', 1, 100), renewed('a', 5, 130)], 130],
    ['a renewal that says nothing', [paid('a', 1, 100), renewed('a', 5)], 100],
    ['a renewal after a payment that says nothing', [paid('a', 1), renewed('a', 5, 130)], undefined],
    [
      'a renewal of a purchase that another has replaced',
      [paid('a', 1, 100), paid('b', 2, 110), renewed('a', 5, 130)],
      130,
    ],
    [
      'a refund of the payment that included most',
      [paid('a', 1, 100), paid('b', 2, 200), { purchase: 'b', kind: 'refunded', on: 3 }],
      200,
    ],
    [
      'a renewal that was paid before its subscription ended',
      [paid('a', 1, 100), renewed('a', 5, 130), { purchase: 'a', kind: 'canceled', on: 6 }],
      130,
    ],
  ]

  /** All orders in which steps can become known: a purchase is paid before its other steps. */
  function ordersOf(steps: Step[]): Step[][] {
    if (steps.length === 0) return [[]]
    return steps.flatMap((step, at) => {
      const waits =
        step.kind !== 'paid' && steps.some((one) => one.kind === 'paid' && one.purchase === step.purchase)
      return waits ? [] : ordersOf(steps.toSpliced(at, 1)).map((rest) => [step, ...rest])
    })
  }

  const start = daysAgo(30).getTime()
  const day = (n: number) => new Date(start + n * 86_400_000)

  test.each(stories)(
    'after %s is the same in every order of arrival, with repetitions',
    async (_, steps, until) => {
      const externalRef = unique('buyer')
      for (const order of ordersOf(steps)) {
        const run = unique('run')
        const messages = order.map((step) => messageOf(step, steps, run, `${externalRef}-${run}`))
        const repeated = messages.flatMap((message, at) => [message, message, messages[at >> 1]!])
        const { results } = await harness.purchases.applyPurchaseEffects({ effects: repeated })
        const { outcome } = results.at(-1)!
        const { id } = outcome.case === 'applied' ? outcome.value.licence! : { id: '' }
        const { updatesUntil } = await now({ id })
        expect(updatesUntil && timestampDate(updatesUntil)).toEqual(
          until === undefined ? undefined : day(until),
        )
      }
    },
  )

  function messageOf(step: Step, steps: Step[], run: string, externalRef: string): PurchaseEffect {
    const { purchase, kind, on, until } = step
    const orderedOn = steps.find((one) => one.purchase === purchase)!.on
    return create(PurchaseEffectSchema, {
      accountId: harness.accountId,
      applicationId: harness.applicationId,
      purchaseRef: `${purchase}-${run}`,
      kind,
      cause: `${kind}-${on}`,
      at: timestampFromDate(day(on)),
      orderedAt: timestampFromDate(day(orderedOn)),
      ...(kind === 'paid' && { planId, externalRef }),
      ...(kind === 'renewed' && { endsAt: timestampFromDate(inDays(60)) }),
      ...(until !== undefined && { updatesUntil: timestampFromDate(day(until)) }),
    })
  }

  test('of a licence that was issued without a limit stays without one', async () => {
    const externalRef = unique('buyer')
    const licence = await givenLicence(harness, { planId, externalRef })
    await buy(harness, { planId, externalRef, orderedAt: daysAgo(1), updatesUntil: inDays(300) })
    expect((await now(licence)).updatesUntil).toBeUndefined()
    expect(await changesOf(harness, licence)).toEqual([])
  })

  test('that the vendor set moves ahead with a payment and never back, and a repetition does not undo it', async () => {
    const externalRef = unique('buyer')
    const order = {
      planId,
      externalRef,
      orderedAt: daysAgo(9),
      updatesUntil: inDays(300),
      purchaseRef: unique('cs'),
    }
    const bought = await buy(harness, order)
    const { licence } = bought
    const set = (until: Date | null) =>
      harness.sql`update licences set updates_until = ${until} where id = ${licence.id}`
    const renew = (until: Date) =>
      apply(
        harness,
        bought,
        { kind: 'renewed', endsAt: timestampFromDate(inDays(60)), updatesUntil: timestampFromDate(until) },
        daysAgo(1),
      )
    const until = async () => timestampDate((await now(licence)).updatesUntil!)
    const [low, high] = [inDays(10), inDays(20)]
    await set(low)
    await buy(harness, order)
    expect(await until()).toEqual(low)
    await renew(high)
    expect(await until()).toEqual(high)
    await renew(low)
    expect(await until()).toEqual(high)
    await set(null)
    await renew(inDays(900))
    expect((await now(licence)).updatesUntil).toBeUndefined()
  })

  test('that a payment moves is in the history, with the payment as its cause', async () => {
    const externalRef = unique('buyer')
    const [from, to] = [inDays(100), inDays(200)]
    const { licence } = await buy(harness, { planId, externalRef, orderedAt: daysAgo(2), updatesUntil: from })
    const second = await buy(harness, { planId, externalRef, orderedAt: daysAgo(1), updatesUntil: to })
    expect(await changesOf(harness, licence)).toEqual([
      { updates_until: { from: from.toISOString(), to: to.toISOString() } },
    ])
    expect((await history(harness, licence)).at(-1)).toEqual({
      type: 'changed',
      from: 'active',
      to: 'active',
      actor: 'processor',
      cause: second.bought.purchaseRef,
    })
    expect(await eventTypes(harness, licence)).toEqual(['licence.created', 'licence.plan_changed'])
  })

  test('of a revoked licence stays as it is', async () => {
    const until = inDays(10)
    const bought = await buy(harness, { planId, orderedAt: daysAgo(3), updatesUntil: until })
    await harness.licensing.revokeLicence(verbOn(harness, bought.licence))
    const renewal = { endsAt: timestampFromDate(inDays(60)), updatesUntil: timestampFromDate(inDays(90)) }
    await apply(harness, bought, { kind: 'renewed', ...renewal }, daysAgo(1))
    expect(timestampDate((await now(bought.licence)).updatesUntil!)).toEqual(until)
  })
})
