import { create } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { metadataLimits } from '@licensing/proto/metadata'
import type { Metadata } from '@licensing/proto/metadata'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { describe, expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  changesOf,
  eventTypes,
  givenPlan,
  history,
  statusOf,
  givenLicence,
  verbOn,
  licenceOf,
} from '../../test/makers.ts'
import { apply, buy, daysAgo, inDays, refusalOf, unique } from '../../test/purchases.ts'
import { isGovernedByRenewingSubscription } from './purchase-queries.ts'

const harness = await forFile(startHarness)
const { id: planId } = await givenPlan(harness)

const now = (licence: { id: string }) => licenceOf(harness, licence)

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
    const metadata = { from: { a: '1', b: '1' }, to: { a: '1', b: '2', c: '2' } }
    expect(await changesOf(harness, first.licence)).toEqual([{ actor: 'processor', changes: { metadata } }])
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

  test('of an earlier payment that is known late does not replace what the vendor changed since the later one', async () => {
    const order = { planId, externalRef: unique('buyer') }
    const { licence } = await buy(harness, { ...order, orderedAt: daysAgo(2), metadata: { b: '2', c: '2' } })
    await harness.sql`update licences set metadata = '{"c":"vendor","d":"vendor"}' where id = ${licence.id}`
    const late = await buy(harness, { ...order, orderedAt: daysAgo(3), metadata: { a: '1', b: '1' } })
    expect(late.licence.metadata).toEqual({ a: '1', c: 'vendor', d: 'vendor' })
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

describe('a subscription', () => {
  const rests = async ({ id }: { id: string }): Promise<boolean> => {
    const { sql } = harness
    const [row] = await sql<{ renews: boolean }[]>`
      select ${isGovernedByRenewingSubscription(sql)} as renews from licences l where l.id = ${id}`
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
    await apply(harness, bought, { kind: 'cancelled' }, daysAgo(6))
    await apply(harness, bought, { kind: 'renewal_resumed' }, daysAgo(5))
    expect(await rests(licence)).toBe(false)
    expect(await statusOf(harness, licence)).toBe('expired')
  })

  test('counts only while it governs the licence', async () => {
    const externalRef = unique('buyer')
    const first = await subscribe(9, externalRef)
    const once = await buy(harness, { planId, externalRef, orderedAt: daysAgo(5) })
    expect(await rests(first.licence)).toBe(false)
    await apply(harness, once, { kind: 'refunded' }, daysAgo(4))
    expect(await rests(first.licence)).toBe(true)
  })
})

describe('updates_until', () => {
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
    const updates_until = { from: from.toISOString(), to: to.toISOString() }
    expect(await changesOf(harness, licence)).toEqual([{ actor: 'processor', changes: { updates_until } }])
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
