import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { isFull } from '@licensing/test-support/drawn'
import type { Licence } from '@licensing/proto/licensing'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import { givenPlan, licenceOf, update } from '../../test/makers.ts'
import { givenActivation } from '../../test/products.ts'
import { apply, buy, daysAgo, inDays, unique } from '../../test/purchases.ts'
import type { Bought } from '../../test/purchases.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'

const harness = await forFile(startHarness)
const plan = await givenPlan(harness)

const [few, many] = [10, 20_000]
// On a busy machine more rounds are needed until each call has run undisturbed once.
const rounds = { least: isFull ? 25 : 9, most: 60 }
const metadata = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`name${10 + at}`, 'x'.repeat(20)]))

interface Given extends Bought {
  /** The earlier purchases, the oldest first. */
  earlier: Bought['bought'][]
}

/** The states of the earlier purchases of a licence. `at` is their number. */
const states = {
  'are all valid': 'null, null, false',
  'have ended, except the first': `case when at > 1 then now() - interval '1 day' end, null, at > 1`,
  'were refunded, except the first': `null, case when at > 1 then now() - interval '1 day' end, at > 1`,
  'have ended, the first one last': `now() - at * interval '1 second', null, true`,
} as const

/** A licence with that many purchases in this state, and a later one that is valid. */
async function givenLicence(count: number, state: keyof typeof states): Promise<Given> {
  const { sql, applicationId, accountId } = harness
  const externalRef = unique('guest')
  const bought = await buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(1), metadata })
  const { id } = bought.licence
  const prefix = `${id}_`
  await sql`
    insert into purchases (application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id,
      bought_plan_id, bought_snapshot_id, metadata, ends_at, terminated_at, fallen)
    select ${applicationId}, ${prefix} || at, ${accountId}, ${id}, now() - interval '900 days' + at * interval '1 hour',
      l.plan_id, l.snapshot_id, l.plan_id, l.snapshot_id, l.metadata, ${sql.unsafe(states[state])}
    from licences l, generate_series(1, ${count}::int) at where l.id = ${id}`
  await sql`
    insert into provisions (application_id, payment_ref, licence_id, created)
    select ${applicationId}, ${prefix} || at, ${id}, false from generate_series(1, ${count}::int) at`
  const earlier = await sql<{ purchaseRef: string; orderedAt: Date }[]>`
    select purchase_ref as "purchaseRef", ordered_at as "orderedAt" from purchases
    where licence_id = ${id} and purchase_ref <> ${bought.bought.purchaseRef} order by ordered_at`
  return { ...bought, earlier: earlier.map((one) => ({ ...bought.bought, ...one })) }
}

/** How many times longer a call takes for the second one. The shortest times of alternating calls are compared. */
async function ratioOf<T>(
  given: [T, T],
  call: (given: T) => Promise<unknown>,
  prepare?: (given: T) => Promise<unknown>,
) {
  const shortest = [Infinity, Infinity]
  const ratio = () => shortest[1]! / shortest[0]!
  for (let round = 0; round < rounds.least || (round < rounds.most && ratio() > 2); round += 1) {
    for (const at of [0, 1]) {
      await prepare?.(given[at]!)
      const started = performance.now()
      await call(given[at]!)
      shortest[at] = Math.min(shortest[at]!, performance.now() - started)
    }
  }
  return ratio()
}

const sale = ({ bought: { externalRef } }: Given) =>
  buy(harness, { planId: plan.id, externalRef, orderedAt: new Date(), metadata, updatesUntil: inDays(9) })

/** Lets the end of the purchase pass that governs the licence. */
const letEnd = ({ licence }: Given) => harness.sql`
  with ended as (
    update purchases set ends_at = now(), bought_ends_at = now()
    where application_id = ${harness.applicationId} and licence_id = ${licence.id}
      and purchase_ref = (select governed_by from licences where id = ${licence.id})
  )
  update licences set expires_on = now() where id = ${licence.id}`

const calls: Record<
  string,
  [call: (given: Given) => Promise<unknown>, prepare?: (given: Given) => Promise<unknown>]
> = {
  'a sale': [sale],
  'a sale that was made long ago': [
    ({ bought: { externalRef } }) =>
      buy(harness, { planId: plan.id, externalRef, orderedAt: daysAgo(950), metadata }),
  ],
  'a refund of the latest purchase': [
    async (given) => apply(harness, await sale(given), { kind: 'refunded' }, new Date()),
  ],
  'a refund of an earlier purchase': [
    ({ earlier }) =>
      apply(harness, { bought: earlier[earlier.length / 2]! }, { kind: 'charged_back' }, new Date()),
  ],
  'a PATCH of the end': [
    ({ licence }) =>
      update(harness, licence, {
        expiresOn: timestampFromDate(inDays(Math.ceil(Math.random() * 900))),
      }),
  ],
  'the sweep': [
    () => sweepExpiries(harness.deps),
    async (given) => void (await sale(given), await letEnd(given)),
  ],
  'an activation after an end': [
    ({ licence }) => givenActivation(harness.products, licence),
    async (given) => void (await sale(given), await letEnd(given)),
  ],
}

test.each(Object.keys(states) as (keyof typeof states)[])(
  `a licence with ${many} purchases costs at most twice as much as one with ${few}, if its earlier purchases %s`,
  async (state) => {
    const given: [Given, Given] = [await givenLicence(few, state), await givenLicence(many, state)]
    await harness.sql`vacuum analyze purchases`
    const ratios: [string, number][] = []
    for (const [name, [call, prepare]] of Object.entries(calls))
      ratios.push([name, await ratioOf(given, call, prepare)])
    expect(ratios.filter(([, ratio]) => ratio > 2)).toEqual([])
    for (const { licence } of given) expect((await licenceOf(harness, licence)).status).toBe('active')
  },
  300_000,
)

test('an effect on a purchase with 50,000 renewals or other effects costs at most twice as much as on one with 10', async () => {
  const givenEffects = async (count: number): Promise<Bought> => {
    const paid = await buy(harness, {
      planId: plan.id,
      orderedAt: daysAgo(900),
      endsAt: inDays(30),
      renews: true,
    })
    await harness.sql`
      insert into purchase_effects (licence_id, purchase_ref, kind, cause, at, ends_at, end_revision, plan_id, snapshot_id)
      select l.id, l.governed_by, kind, kind || at, now() - interval '800 days' + at * interval '1 minute',
        case when kind = 'renewed' then now() + at * interval '1 minute' end, 0,
        case when kind = 'renewed' then l.plan_id end, case when kind = 'renewed' then l.snapshot_id end
      from licences l, unnest(array['renewed', 'inquiry_opened', 'renewal_stopped']) kind, generate_series(1, ${count}::int) at
      where l.id = ${paid.licence.id}`
    return paid
  }
  const given: [Bought, Bought] = [await givenEffects(10), await givenEffects(50_000)]
  await harness.sql`vacuum analyze purchase_effects`
  const renewed = { kind: 'renewed', endsAt: timestampFromDate(inDays(90)), planId: plan.id } as const
  const ratios = {
    renewal: await ratioOf(given, (paid) => apply(harness, paid, renewed, daysAgo(1))),
    repetition: await ratioOf(given, (paid) => apply(harness, paid, renewed, daysAgo(1), 'renewed7')),
    stop: await ratioOf(given, (paid) => apply(harness, paid, { kind: 'renewal_stopped' }, daysAgo(1))),
    'a new end': await ratioOf(given, ({ licence }) => moveEnd(licence)),
    cancellation: await ratioOf(given, (paid) => apply(harness, paid, { kind: 'cancelled' }, daysAgo(2))),
  }
  expect(Object.entries(ratios).filter(([, ratio]) => ratio > 2)).toEqual([])
}, 300_000)

let moved = 0
const moveEnd = (licence: Licence) =>
  update(harness, licence, { expiresOn: timestampFromDate(inDays((moved += 1))) })
