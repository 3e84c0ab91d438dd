import { transaction } from '@licensing/database/transaction'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { rules } from '../../test/histories.ts'
import { givenSold, handled, licenceOf } from '../../test/shop.ts'
import { givenSubscribed } from '../../test/subscribed.ts'
import { decide } from '../purchases/decide/decide.ts'
import { loadHistories } from '../purchases/decide/decision-queries.ts'
import type { Fact } from '../processor/facts.ts'
import { recordFacts } from './record-facts.ts'

const harness = await sharedHarness()

async function factsOf(sessionId: string): Promise<number> {
  return (await harness.sql`select from facts where session_id = ${sessionId}`).count
}

/** The median time of a decision, in milliseconds. */
async function costOf(sessionId: string): Promise<number> {
  const due = { purchase_ref: sessionId, account_id: '', ordered_at: null, attempts: 0, is_late: false }
  const times: number[] = []
  for (let run = 0; run < 41; run += 1) {
    const started = performance.now()
    await transaction(harness.sql, async (tx) => {
      for (const history of await loadHistories(tx, [due])) decide(history, new Date(), rules)
    })
    times.push(performance.now() - started)
  }
  return times.sort((a, b) => a - b)[20]!
}

test('a decision about a charge that was updated 50,000 times costs at most twice one about a charge with 10 updates', async () => {
  const vendor = await harness.givenVendor()
  const merchant = `stripe:${vendor.connectedAccount}`
  const sold = [await givenSold(harness, vendor), await givenSold(harness, vendor, { externalRef: 'other' })]
  const updated = async ({ charge }: { charge: string }, times: number) => {
    for (let from = 0; from < times; from += 500) {
      const facts = Array.from({ length: Math.min(500, times - from) }, (_, at) => {
        const reportedAt = Date.now() + from + at
        const money = { amount: 4900, currency: 'usd', chargedAt: reportedAt - 1, refunded: 0 }
        const fact: Fact = { kind: 'charge', chargeRef: charge, ...money, reportedAt }
        return { merchant, sourceKey: `evt_update${from + at}`, fact }
      })
      await harness.deps.change((tx) => recordFacts(tx, facts))
    }
  }
  await updated(sold[0]!, 10)
  await updated(sold[1]!, 50_000)
  await handled(harness, vendor)
  const [few, many] = sold.map(({ session }) => session.id)
  expect(await factsOf(many!)).toBe(await factsOf(few!))
  const [least, most] = [await costOf(few!), await costOf(many!)]
  expect(most / least).toBeLessThan(2)
  expect(await licenceOf(harness, vendor, sold[1]!.licenceId)).toMatchObject({ status: 'active' })
})

test('of the changes of a subscription’s end only the newest are kept, and the last one counts', async () => {
  const { vendor, subscription, session } = await givenSubscribed(harness)
  await handled(harness, vendor)
  const before = await factsOf(session.id)
  const at = Math.floor(Date.now() / 1000) * 1000
  const end = at + 86_400_000
  const facts = Array.from({ length: 301 }, (_, change) => {
    const [endsAt, endsAtBefore] = change % 2 === 0 ? [end, null] : [null, end]
    const fact: Fact = {
      kind: 'end_scheduled',
      subscriptionRef: subscription,
      endsAt,
      endsAtBefore,
      at: at + change * 1000,
    }
    return { merchant: `stripe:${vendor.connectedAccount}`, sourceKey: `evt_end${change}`, fact }
  })
  for (const fact of facts.toReversed()) await harness.deps.change((tx) => recordFacts(tx, [fact]))
  await handled(harness, vendor)
  expect(await factsOf(session.id)).toBe(before + 50)
  const effects = await harness.sql<{ kind: string }[]>`
    select kind from purchase_effects where purchase_ref = ${session.id} order by position`
  expect(effects.at(-1)!.kind).toBe('renewal_stopped')
})
