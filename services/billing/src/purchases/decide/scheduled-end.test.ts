import { expect, test } from 'vitest'
import type { Fact } from '../../processor/facts.ts'
import {
  charged,
  day,
  givenHistory,
  invoice,
  paid,
  permutations,
  record,
  start,
} from '../../../test/histories.ts'
import type { Recorded } from '../../../test/histories.ts'

const subscribed = { mode: 'subscription' as const, subscription_ref: 'sub_1' }
const began: Fact[] = [
  { ...paid, subscriptionRef: 'sub_1', invoiceRef: 'in_1' },
  charged,
  invoice('in_1', start, { reason: 'first' }),
]
const [firstEnd, secondEnd] = [start + 30 * day, start + 60 * day]
const renewed = invoice('in_2', firstEnd + 3_600_000, { periodEnd: secondEnd })

/** The subscription was set to end, on a day after the start. */
const ends = (on: number, endsAt: number | null, endsAtBefore: number | null = null): Fact => {
  const at = start + on * day
  return { kind: 'end_scheduled', subscriptionRef: 'sub_1', endsAt, endsAtBefore, at }
}
const undone = (on: number, endsAtBefore: number) => ends(on, null, endsAtBefore)
const records = (endsAt: number | null, endSetAt: number | null): Fact => {
  const items = [{ itemRef: 'si_1', priceRef: 'price_1', periodEnd: firstEnd, createdAt: start }]
  return { kind: 'subscription', subscriptionRef: 'sub_1', items, endsAt, endSetAt }
}

/** The last renewal effect that licensing was sent, and the latest by the processor's clock. */
function renewalAfter({ decisions }: Recorded): { last: string; latest: string } {
  const sent = decisions
    .flatMap(({ effects }) => effects)
    .filter(({ kind }) => kind === 'renewal_stopped' || kind === 'renewal_resumed')
  const nothing = { kind: 'nothing' }
  const byTime = sent.toSorted((a, b) => a.at.getTime() - b.at.getTime())
  return { last: (sent.at(-1) ?? nothing).kind!, latest: (byTime.at(-1) ?? nothing).kind! }
}

const stopped = ['renewal_stopped']
const goesOn = ['nothing', 'renewal_resumed']

const stories: [title: string, facts: Fact[], results: string[]][] = [
  ['a cancellation for the end of the period', [ends(5, firstEnd)], stopped],
  ['a cancellation that was undone', [ends(5, firstEnd), undone(6, firstEnd)], goesOn],
  ['a cancellation that was undone in the same second', [ends(5, firstEnd), undone(5, firstEnd)], goesOn],
  [
    'a cancellation that was undone and made again in the same second',
    [ends(5, firstEnd), undone(5, firstEnd), ends(5, firstEnd)],
    stopped,
  ],
  [
    'a cancellation that was undone and made again in the same second, after it had been made',
    [ends(4, firstEnd), undone(5, firstEnd), ends(5, firstEnd)],
    stopped,
  ],
  ['a cancellation for a time in the paid period', [ends(5, firstEnd - day)], stopped],
  ['a cancellation for the end of a later period', [ends(5, secondEnd)], goesOn],
  ['a cancellation for the end of the period that is paid now', [ends(5, secondEnd), renewed], stopped],
  ['a cancellation after a renewal', [renewed, ends(40, secondEnd)], stopped],
  ['a cancellation whose undoing was never reported, and a renewal', [ends(5, firstEnd), renewed], goesOn],
  [
    'a cancellation that was moved to a later period',
    [ends(5, firstEnd), ends(6, secondEnd, firstEnd)],
    goesOn,
  ],
  ['a cancellation in the records of the processor', [records(firstEnd, start + 5 * day)], stopped],
  [
    'a cancellation in the records of the processor that was undone later',
    [records(firstEnd, start + 5 * day), ends(5, firstEnd), undone(6, firstEnd)],
    goesOn,
  ],
]

test.each(stories)(
  'licensing is sent the same effects after %s, in whatever order the facts become known',
  (_, facts, results) => {
    for (const order of permutations(facts)) {
      for (const known of [
        [...began, ...order],
        [...order, ...began],
      ]) {
        const after = renewalAfter(record(givenHistory(subscribed), known))
        expect(results).toContain(after.last)
        expect(after.latest).toBe(after.last)
      }
    }
  },
)

test('a change that licensing was sent is not sent again', () => {
  const facts = [...began, ends(5, firstEnd), ends(5, firstEnd), renewed, invoice('in_3', secondEnd + day)]
  const { decisions } = record(givenHistory(subscribed), facts)
  const kinds = decisions.flatMap(({ effects }) => effects.map(({ kind }) => kind))
  expect(kinds).toEqual(['paid', 'renewal_stopped', 'renewed', 'renewal_resumed', 'renewed'])
})

test('the first payment begins a subscription that renews; a single payment does not', () => {
  const renewsOf = (recorded: Recorded) =>
    recorded.decisions.flatMap(({ effects }) => effects.map(({ renews }) => renews))
  expect(renewsOf(record(givenHistory(subscribed), began))).toEqual([true])
  expect(renewsOf(record(givenHistory(), [paid, charged]))).toEqual([false])
})
