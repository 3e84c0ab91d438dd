import { describe, expect, test } from 'vitest'
import type { Fact } from '../processor/facts.ts'
import {
  charged,
  day,
  dispute,
  failure,
  invoice,
  paid,
  permutations,
  refund,
  start,
} from '../../test/histories.ts'
import { factKey, mergeFacts } from './fact-state.ts'

const failed = (at: number): Fact => {
  return { kind: 'invoice_failed', invoiceRef: 'in_1', subscriptionRef: 'sub_1', attempt: 1, at }
}

/** Facts with one key, and what they say together. */
const rows: [string, Fact[], object][] = [
  [
    'a charge: its latest state and its greatest total of refunds',
    [
      { ...charged, paymentRef: undefined, amount: 5000 },
      { ...charged, refunded: 1000, reportedAt: start + day },
      { ...charged, reportedAt: start + 2 * day },
    ],
    { paymentRef: 'pi_1', amount: 4900, refunded: 1000, reportedAt: start + 2 * day },
  ],
  [
    'a refund: when it was first reported, and whether it had succeeded',
    [
      failure('re_1', start, start + 2 * day),
      refund('re_1', start, { status: 'failed', reportedAt: undefined }),
      refund('re_1', start, { status: 'failed', reportedAt: start + day }),
    ],
    { hadSucceeded: true, reportedAt: start + day },
  ],
  [
    'a dispute: when it was first reported, and how it began',
    [
      dispute('du_1', start, { reportedAt: start + day, opening: false }),
      dispute('du_1', start, { wasInquiry: true, opening: false, reportedAt: undefined }),
      dispute('du_1', start),
    ],
    { wasInquiry: true, opening: true, reportedAt: start },
  ],
  [
    'a paid checkout: the earliest time',
    [
      paid,
      { ...paid, at: start + day, invoiceRef: 'in_1' },
      { ...paid, at: start - day, paymentRef: undefined },
    ],
    { at: start - day, invoiceRef: 'in_1', paymentRef: 'pi_1' },
  ],
  [
    'a paid invoice: the earliest time, and its lines',
    [
      invoice('in_1', start, { lines: undefined, reason: 'cycle' }),
      invoice('in_1', start + day, { reason: 'first', periodEnd: start + 30 * day }),
    ],
    { paidAt: start, reason: 'first', lines: [{ periodEnd: start + 30 * day }] },
  ],
  ['an attempt of an invoice: the first time', [failed(start + day), failed(start)], { at: start }],
]

describe('facts about the same are merged into one', () => {
  test.each(rows)('%s, in every order and with repetitions', (_, facts, expected) => {
    const keys = new Set(facts.map((fact, at) => factKey(fact, `evt_${at}`)))
    expect(keys.size).toBe(1)
    const results = permutations(facts).map((order) => [...order, ...order].reduce(mergeFacts))
    for (const result of results) {
      expect(result).toMatchObject(expected)
      expect(result).toEqual(results[0])
    }
  })

  test('a refund that succeeded and failed, and each change of a subscription’s end, are facts of their own', () => {
    const end = {
      kind: 'end_scheduled',
      subscriptionRef: 'sub_1',
      endsAt: null,
      endsAtBefore: start,
      at: start,
    } as const
    const facts: Fact[] = [refund('re_1', start), failure('re_1', start, start + day), end, end]
    expect(new Set(facts.map((fact, at) => factKey(fact, `evt_${at}`))).size).toBe(4)
  })
})
