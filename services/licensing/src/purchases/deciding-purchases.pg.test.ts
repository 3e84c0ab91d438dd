import { newId } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import { isFull } from '@licensing/test-support/drawn'
import { array, boolean, constantFrom, integer, nat, option, record, sample, tuple } from 'fast-check'
import type { Arbitrary } from 'fast-check'
import { expect, test } from 'vitest'
import { givenDatabase } from '../../test/database.ts'
import { governingPurchase } from './governing-purchase.ts'
import { lockPurchasedLicences } from './lock-purchased-licences.ts'
import { beforeAllPurchases, fellAt } from './purchase.ts'
import type { Purchase } from './purchase.ts'
import { upsertPurchases } from './purchase-queries.ts'
import { newPurchase } from './purchased-licence.ts'

const licencesDrawn = isFull ? 3_000 : 150
const now = new Date()
/** Few different seconds, so that many events are in the same one. Seconds after 60 are in the future. */
const second = (n: number) => new Date(Math.floor(now.getTime() / 1_000 - 60 + n) * 1_000)
const times = option(nat({ max: 75 }))

/** An event of a purchase. */
const happened = record({
  orderedOn: integer({ min: -1, max: 60 }),
  endsOn: times,
  terminatedOn: option(nat({ max: 62 }), { freq: 3 }),
  moneyReturned: constantFrom(true, false),
  renewedOn: times,
  failedOn: times,
  partialOn: times,
  inquiryOn: times,
  closedOn: times,
})
type Happened = typeof happened extends Arbitrary<infer Value> ? Value : never

const at = (n: number | null) => (n === null ? null : second(n))

function changesOf(story: Happened): Partial<Purchase> {
  return {
    ordered_at: story.orderedOn < 0 ? beforeAllPurchases : second(story.orderedOn),
    ends_at: at(story.endsOn),
    terminated_at: at(story.terminatedOn),
    money_returned: story.terminatedOn !== null && story.moneyReturned,
    renewed_at: at(story.renewedOn),
    failed_at: at(story.failedOn),
    partially_refunded_at: at(story.partialOn),
    first_inquiry_at: at(story.inquiryOn),
    inquiry_at: at(story.inquiryOn),
    inquiry_closed_at: at(story.closedOn),
  }
}

/** The same purchase, bought early. It has ended: most end early, a few much later, whatever their order is. */
function overAt(story: Happened): Happened {
  return { ...story, orderedOn: story.orderedOn % 10, endsOn: Math.floor((story.endsOn ?? 0) ** 3 / 10_000) }
}

const drawn = tuple(
  array(happened, { minLength: 1, maxLength: 90, size: 'max' }),
  boolean(),
  nat(),
  happened,
  times,
)

test('of any purchases, those that are read lead to the same result as all of them, before and after a change of some', async () => {
  await using given = await givenDatabase()
  const { sql } = given
  const [accountId, applicationId] = [newId('acct'), newId('app')]
  const cases = sample(drawn, licencesDrawn).map(([stories, onlyOneValid, chosen, change, reactivatedOn]) => {
    const licenceId = newId('lic')
    const purchases = stories.map((story, place): Purchase => {
      const over = onlyOneValid && place !== chosen % stories.length
      const made = newPurchase({
        application_id: applicationId,
        purchase_ref: `${licenceId}_${place}`,
        account_id: accountId,
        licence_id: licenceId,
        ordered_at: now,
        plan_id: 'plan',
        snapshot_id: 'snapshot',
        ends_at: null,
        renews: false,
        updates_until: null,
        metadata: {},
      })
      return { ...made, ...changesOf(over ? overAt(story) : story) }
    })
    const named = [purchases[chosen % purchases.length]!, purchases[(chosen * 7) % purchases.length]!]
    return { licenceId, purchases, named, change: changesOf(change), reactivatedAt: at(reactivatedOn) }
  })
  await sql`
    insert into licences (id, key, account_id, application_id, plan_id, status, external_ref, snapshot_id)
    select id, id, ${accountId}, ${applicationId}, 'plan', 'active', 'customer', 'snapshot'
    from unnest(${cases.map(({ licenceId }) => licenceId)}::text[]) id`
  const rows = cases.flatMap(({ purchases }) => purchases)
  // The sweep may not yet have marked those whose end has passed.
  await upsertPurchases(
    sql,
    rows.map((row, place) => ({
      ...row,
      fallen: row.terminated_at !== null || (place % 3 > 0 && fellAt(row, now.getTime()) < Infinity),
    })),
  )
  const wanted = cases.map(({ licenceId, named }) => {
    return { licenceId, purchaseRefs: [...new Set(named.map(({ purchase_ref }) => purchase_ref))] }
  })
  const { licences, now: readAt } = await transaction(sql, (tx) => lockPurchasedLicences(tx, wanted))
  let fewer = 0
  for (const { licenceId, purchases, named, change, reactivatedAt } of cases) {
    const read = licences.get(licenceId)!.purchases
    if (read.length < purchases.length) fewer += 1
    const shown = (from: readonly Purchase[]) => {
      const { current, isValid, state, uncancelled } = governingPurchase(
        from,
        reactivatedAt,
        readAt.getTime(),
      )
      return { ref: current.purchase_ref, isValid, state, uncancelled }
    }
    expect(shown(read)).toEqual(shown(purchases))
    const refs = named.map(({ purchase_ref }) => purchase_ref)
    const changed = (from: readonly Purchase[]) =>
      from.map((purchase) => (refs.includes(purchase.purchase_ref) ? { ...purchase, ...change } : purchase))
    expect(shown(changed(read))).toEqual(shown(changed(purchases)))
  }
  expect(fewer).toBeGreaterThan(cases.length / 4)
}, 120_000)
