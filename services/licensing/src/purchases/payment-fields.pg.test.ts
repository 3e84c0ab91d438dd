import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Licence } from '@licensing/proto/licensing'
import { metadataLimits } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import {
  changesOf,
  eventTypes,
  givenLicence,
  givenPlan,
  history,
  statusOf,
  verbOn,
} from '../../test/makers.ts'
import { apply, buy, daysAgo, inDays, refusalOf, unique } from '../../test/purchases.ts'
import { restsOnRenewingSubscription } from './purchase-queries.ts'

let harness: Harness
let planId: string
beforeAll(async () => {
  harness = await startHarness()
  planId = (await givenPlan(harness)).id
})
afterAll(() => harness[Symbol.asyncDispose]())

const now = async (licence: { id: string }): Promise<Licence> =>
  (await harness.licensing.getLicence(verbOn(harness, licence))).licence!

const entries = (count: number, prefix: string): Metadata =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`${prefix}${10 + at}`, 'x']))

describe('metadata of a payment', () => {
  test('becomes the metadata of a new licence, and is merged into the metadata of an existing licence', async () => {
    const externalRef = unique('buyer')
    const first = await buy(harness, {
      planId,
      externalRef,
      orderedAt: daysAgo(3),
      metadata: { a: '1', b: '1' },
    })
    expect(first.licence.metadata).toEqual({ a: '1', b: '1' })
    const second = await buy(harness, {
      planId,
      externalRef,
      orderedAt: daysAgo(2),
      metadata: { b: '2', c: '2' },
    })
    expect(second.licence.metadata).toEqual({ a: '1', b: '2', c: '2' })
    await buy(harness, { planId, externalRef, orderedAt: daysAgo(1), metadata: { b: '2' } })
    expect(await now(first.licence)).toMatchObject({ metadata: { a: '1', b: '2', c: '2' } })
    expect(await changesOf(harness, first.licence)).toEqual([
      { metadata: { from: { a: '1', b: '1' }, to: { a: '1', b: '2', c: '2' } } },
    ])
  })

  test('is merged once: a repetition does not undo what the vendor changed since', async () => {
    const order = { planId, orderedAt: daysAgo(3), externalRef: unique('buyer') }
    const { licence } = await buy(harness, order)
    const paid = { ...order, purchaseRef: unique('cs'), metadata: { tier: 'gold' } }
    await buy(harness, paid)
    await harness.sql`update licences set metadata = '{"tier":"silver"}' where id = ${licence.id}`
    expect((await buy(harness, paid)).licence.metadata).toEqual({ tier: 'silver' })
  })

  test('never exceeds the limit: new names that do not fit are left out, in the order of the names', async () => {
    const externalRef = unique('buyer')
    const held = entries(metadataLimits.entries - 2, 'held')
    await buy(harness, { planId, externalRef, orderedAt: daysAgo(3), metadata: held })
    const brought = { z: 'new', held10: 'new', b: 'new', a: 'new' }
    const { licence } = await buy(harness, { planId, externalRef, orderedAt: daysAgo(2), metadata: brought })
    expect(licence.metadata).toEqual({ ...held, held10: 'new', a: 'new', b: 'new' })
  })

  const twoPayments = [
    { on: 3, metadata: { a: '1', b: '1' } },
    { on: 2, metadata: { b: '2', c: '2' } },
  ]
  const payAll = async (payments: typeof twoPayments, between: (id: string) => Promise<unknown>) => {
    const externalRef = unique('buyer')
    let licence: Licence | undefined
    for (const { on, metadata } of payments) {
      if (licence) await between(licence.id)
      ;({ licence } = await buy(harness, { planId, externalRef, orderedAt: daysAgo(on), metadata }))
    }
    return licence!
  }

  test('is that of the later payment, whichever is known first', async () => {
    const licence = await payAll(twoPayments.toReversed(), () => Promise.resolve())
    expect(licence.metadata).toEqual({ a: '1', b: '2', c: '2' })
  })

  test('of an earlier payment that is known late does not replace what the vendor changed since the later one', async () => {
    const licence = await payAll(
      twoPayments.toReversed(),
      (id) => harness.sql`update licences set metadata = '{"c":"vendor","d":"vendor"}' where id = ${id}`,
    )
    expect(licence.metadata).toEqual({ a: '1', c: 'vendor', d: 'vendor' })
  })

  test('follows a corrected order of the payments', async () => {
    const externalRef = unique('buyer')
    const [one, other] = [daysAgo(3), daysAgo(2)]
    const first = await buy(harness, { planId, externalRef, orderedAt: one, metadata: { a: '1' } })
    const second = await buy(harness, { planId, externalRef, orderedAt: other, metadata: { a: '2' } })
    expect(second.licence.metadata).toEqual({ a: '2' })
    const corrected = { bought: { ...first.bought, orderedAt: daysAgo(1) } }
    await apply(harness, corrected, { kind: 'order_corrected' }, daysAgo(1))
    expect((await now(first.licence)).metadata).toEqual({ a: '1' })
  })

  test('of two payments at once is complete', async () => {
    const externalRef = unique('buyer')
    const { licence } = await buy(harness, { planId, externalRef, orderedAt: daysAgo(9) })
    const names = Array.from({ length: 8 }, (_, at) => `name${at}`)
    await Promise.all(
      names.map((name) =>
        buy(harness, { planId, externalRef, orderedAt: daysAgo(2), metadata: { [name]: 'x' } }),
      ),
    )
    expect(Object.keys((await now(licence)).metadata).toSorted()).toEqual(names)
  })

  test('is refused if a name is not allowed', async () => {
    const effect = create(PurchaseEffectSchema, {
      accountId: harness.accountId,
      applicationId: harness.applicationId,
      purchaseRef: unique('cs'),
      kind: 'paid',
      cause: 'cause',
      at: timestampFromDate(daysAgo(1)),
      planId,
      externalRef: unique('buyer'),
      metadata: { entries: { 'not allowed': 'x' } },
    })
    const { results } = await harness.purchases.applyPurchaseEffects({ effects: [effect] })
    expect(results.map(refusalOf)).toEqual(['validation_failed'])
  })
})

test('a trial is a customer’s licence after a payment for its reference, and rests on the purchase', async () => {
  const licence = await givenLicence(harness, { planId, expiresOn: inDays(14), externalRef: unique('buyer') })
  await harness.sql`update licences set trial = true where id = ${licence.id}`
  const { externalRef } = licence
  const paid = await buy(harness, { planId, externalRef, orderedAt: daysAgo(1) })
  expect(paid).toMatchObject({ created: false, licence: { id: licence.id, trial: false } })
  expect(paid.licence.expiresOn).toBeUndefined()
  await apply(harness, paid, { kind: 'refunded' }, daysAgo(0.5))
  expect(await now(licence)).toMatchObject({ status: 'active', trial: false })
})

describe('a subscription', () => {
  const rests = async ({ id }: { id: string }): Promise<boolean> => {
    const { sql } = harness
    const [row] = await sql<{ renews: boolean }[]>`
      select ${restsOnRenewingSubscription(sql)} as renews from licences l where l.id = ${id}`
    return row!.renews
  }
  const subscribe = (orderedOn: number, externalRef = unique('buyer')) =>
    buy(harness, { planId, externalRef, orderedAt: daysAgo(orderedOn), endsAt: inDays(30), renews: true })

  test('renews until it is stopped, renews again if that is undone, and does not renew after its end', async () => {
    const bought = await subscribe(9)
    const { licence } = bought
    const before = [await now(licence), await history(harness, licence), await eventTypes(harness, licence)]
    expect(await rests(licence)).toBe(true)
    await apply(harness, bought, { kind: 'renewal_stopped' }, daysAgo(8))
    expect(await rests(licence)).toBe(false)
    await apply(harness, bought, { kind: 'renewal_resumed' }, daysAgo(7))
    expect(await rests(licence)).toBe(true)
    expect([await now(licence), await history(harness, licence), await eventTypes(harness, licence)]).toEqual(
      before,
    )
    await apply(harness, bought, { kind: 'canceled' }, daysAgo(6))
    await apply(harness, bought, { kind: 'renewal_resumed' }, daysAgo(5))
    expect(await rests(licence)).toBe(false)
    expect(await statusOf(harness, licence)).toBe('expired')
  })

  test('that was stopped and resumed renews, whichever is known last', async () => {
    const bought = await subscribe(9)
    await apply(harness, bought, { kind: 'renewal_resumed' }, daysAgo(7))
    await apply(harness, bought, { kind: 'renewal_stopped' }, daysAgo(8))
    expect(await rests(bought.licence)).toBe(true)
  })

  test('counts only while the licence rests on it', async () => {
    const externalRef = unique('buyer')
    const first = await subscribe(9, externalRef)
    const once = await buy(harness, { planId, externalRef, orderedAt: daysAgo(5) })
    expect(await rests(first.licence)).toBe(false)
    await apply(harness, once, { kind: 'refunded' }, daysAgo(4))
    expect(await rests(first.licence)).toBe(true)
  })

  test('is not the basis of a licence without a purchase or with a single payment', async () => {
    const issued = await givenLicence(harness, { planId, externalRef: unique('buyer') })
    const { licence } = await buy(harness, { planId, orderedAt: daysAgo(1), endsAt: inDays(30) })
    expect([await rests(issued), await rests(licence)]).toEqual([false, false])
  })
})
