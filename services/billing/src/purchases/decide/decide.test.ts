import { describe, expect, test } from 'vitest'
import type { Fact } from '../../processor/facts.ts'
import { decide } from './decide.ts'
import type { Question } from './decision.ts'
import type { RecordedFact } from './merge-facts.ts'
import { maxUnanswered } from '../../timing.ts'
import {
  charged,
  day,
  dispute,
  effectsOf,
  failure,
  givenHistory,
  invoice,
  ledgerOf,
  paid,
  permutations,
  recorded,
  refund,
  second,
  start,
  record,
  rules,
} from '../../../test/histories.ts'
import type { Recorded } from '../../../test/histories.ts'

describe('the ledger', () => {
  const expected = ['charge 245', 'credit -245 re_1', 'credit -245 re_2', 'reversal 245 re_1']

  test('has charge, credit, reversal and credit after a refund, its failure and a second refund, in every order', () => {
    const facts = [
      charged,
      refund('re_1', start + day),
      failure('re_1', start + day, start + 2 * day),
      refund('re_2', start + 3 * day),
    ]
    for (const order of permutations(facts)) {
      expect(ledgerOf(record(givenHistory(), [paid, ...order]))).toEqual(expected)
      expect(ledgerOf(record(givenHistory(), [...order, paid]))).toEqual(expected)
      expect(ledgerOf(record(givenHistory(), [paid, ...order], { together: true }))).toEqual(expected)
    }
  })

  test('has the same entries if all of that happened within one second of the processor’s clock', () => {
    const at = start + day
    for (const order of permutations([
      charged,
      refund('re_2', at),
      failure('re_1', at, at),
      refund('re_1', at),
    ])) {
      expect(ledgerOf(record(givenHistory(), [paid, ...order]))).toEqual(expected)
    }
  })

  test.each([
    ['up to exactly 7 days after the charge', [refund('re_1', start + 7 * day)], ['charge', 'credit']],
    ['and not a second later', [refund('re_1', start + 7 * day + second)], ['charge']],
    [
      'and not if only the part that completes the refund is late',
      [refund('re_1', start + 5 * day, { amount: 4000 }), refund('re_2', start + 8 * day, { amount: 900 })],
      ['charge'],
    ],
  ])('has a credit %s', (_, refunds, kinds) => {
    const { history } = record(givenHistory(), [paid, charged, ...refunds])
    expect(history.ledger.map(({ kind }) => kind)).toEqual(kinds)
  })

  test('never has more than one credit more than reversals, in whatever order facts become known', () => {
    const facts = [
      charged,
      refund('re_1', start + day, { amount: 1900 }),
      refund('re_2', start + 2 * day, { amount: 3000 }),
      failure('re_2', start + 2 * day, start + 3 * day),
      refund('re_3', start + 4 * day, { amount: 3000 }),
    ]
    for (const order of permutations(facts)) {
      const entries = ledgerOf(record(givenHistory(), [paid, ...order]))
      expect(entries.map((entry) => entry.split(' ')[0])).toEqual(['charge', 'credit', 'credit', 'reversal'])
    }
  })

  test('credits in the month of the charge’s entry, even if the charge turns out to be of another month', () => {
    const history = givenHistory()
    const late = { ...charged, chargedAt: Date.UTC(2026, 8, 30, 23, 59) }
    // At first the processor does not know the payment.
    history.questions = [{ kind: 'charge', ref: 'pi_1', attempts: 1, found: false }]
    const early = { ...paid, at: Date.UTC(2026, 9, 1) }
    const recorded = record(history, [early, late, refund('re_1', Date.UTC(2026, 9, 3))])
    expect(recorded.history.ledger.map((entry) => [entry.kind, entry.period])).toEqual([
      ['charge', '2026-10'],
      ['credit', '2026-10'],
    ])
  })

  test('has the fee on the charged amount and currency if the price was mapped to another amount', () => {
    const facts = [
      { ...paid, amount: 9900, currency: 'eur' },
      { ...charged, amount: 9900, currency: 'eur' },
    ]
    for (const order of permutations(facts)) {
      const { history } = record(givenHistory(), order)
      expect(history.ledger).toMatchObject([{ amount_minor: 495n, currency: 'eur' }])
      expect(history.payments).toMatchObject([{ amount: 9900n, currency: 'eur', fee_minor: 495n }])
    }
  })

  test('refunds no fee at the processor for a credit that is reversed at once, and cancels pending fee refunds', () => {
    const gone = record(givenHistory(), [paid, charged, failure('re_1', start + day, start + 2 * day)])
    expect(gone.decisions.flatMap((decision) => decision.feeRefunds)).toEqual([])
    const facts = [paid, charged, refund('re_1', start + day), failure('re_1', start + day, start + 2 * day)]
    const recorded = record(givenHistory(), facts)
    expect(recorded.decisions.flatMap((decision) => decision.feeRefunds)).toHaveLength(1)
    const paymentId = recorded.history.payments[0]!.id
    expect(recorded.decisions.flatMap((decision) => decision.cancelledFeeRefunds)).toEqual([paymentId])
  })

  test('waits for the charge’s month while the processor may still report it', () => {
    const history = { ...givenHistory(), facts: [recorded(paid, start)] }
    const decision = decide(history, new Date(start + second), rules)
    expect(decision.entries).toEqual([])
    expect(decision.questions).toMatchObject([{ kind: 'charge', ref: 'pi_1' }])
    expect(decision.effects).toMatchObject([{ kind: 'paid' }])
  })
})

describe('an invoice that is paid in two parts', () => {
  const session = { mode: 'subscription' as const, subscription_ref: 'sub_1', fee_minor: 49n, fee_bps: 100 }
  const given = () => givenHistory(session)
  const parts: Fact[] = [
    { ...paid, paymentRef: undefined, subscriptionRef: 'sub_1', invoiceRef: 'in_1' },
    invoice('in_1', start, { reason: 'first' }),
    { kind: 'invoice_payment', invoiceRef: 'in_1', paymentRef: 'pi_1' },
    { ...charged, amount: 2000 },
    { kind: 'invoice_payment', invoiceRef: 'in_1', paymentRef: 'pi_2' },
    { ...charged, chargeRef: 'ch_2', paymentRef: 'pi_2', amount: 2900, chargedAt: start + second },
  ]
  const ofSecond = { chargeRef: 'ch_2', paymentRef: 'pi_2' }
  const kindsOf = ({ history }: Recorded) =>
    history.refunds.map(({ charge_ref, kind, amount }) => `${charge_ref} ${kind} ${amount}`).sort()

  test('is one payment of their sum, with one fee, in every order', () => {
    for (const order of permutations(parts)) {
      for (const together of [true, false]) {
        const recorded = record(given(), order, { together })
        expect(ledgerOf(recorded)).toEqual(['charge 49'])
        expect(recorded.history.payments).toMatchObject([
          { amount: 4900n, fee_minor: 49n, charge_ref: 'ch_1', other_charge_refs: ['ch_2'] },
        ])
        expect(recorded.history.payments[0]).toMatchObject({ charged_at: new Date(start) })
      }
    }
  })

  test('asks for the payments of the invoice before its fee is charged, if the known charges are less', () => {
    const { decisions, history } = record(given(), parts.slice(0, 4))
    expect(decisions.flatMap(({ questions }) => questions)).toContainEqual(
      expect.objectContaining({ kind: 'invoice', ref: 'in_1' }),
    )
    expect(history.ledger).toEqual([])
    expect(history.payments).toMatchObject([{ amount: 4900n, charge_state: 'pending' }])
  })

  test('is refunded in part by a refund of one charge, and fully by refunds of both, in every order', () => {
    const first = refund('re_1', start + day, { amount: 2000 })
    const second = refund('re_2', start + 2 * day, { amount: 2900, ...ofSecond })
    const partly = record(given(), [...parts, first])
    expect(effectsOf(partly)).toEqual(['paid', 'partially_refunded re_1'])
    expect(kindsOf(partly)).toEqual(['ch_1 partial_refund 2000'])
    const other = record(given(), [...parts, second])
    expect(effectsOf(other)).toEqual(['paid', 'partially_refunded re_2'])
    expect(kindsOf(other)).toEqual(['ch_2 partial_refund 2900'])
    for (const order of permutations([parts[5]!, first, second])) {
      const fully = record(given(), [...parts.slice(0, 5), ...order], { together: true })
      expect(kindsOf(fully)).toEqual(['ch_1 partial_refund 2000', 'ch_2 full_refund 2900'])
      expect(ledgerOf(fully)).toEqual(['charge 49', 'credit -49 re_2'])
      // The refund that becomes known last is the full one if the other had its effect before.
      const apart = record(given(), [...parts.slice(0, 5), ...order])
      expect(effectsOf(apart).map((effect) => effect.split(' ')[0])).toEqual([
        'paid',
        'partially_refunded',
        'refunded',
      ])
      expect(ledgerOf(apart)).toEqual(['charge 49', 'credit -49 re_2'])
    }
  })

  test('is charged back by a dispute of any of its charges', () => {
    const recorded = record(given(), [...parts, dispute('du_1', start + day, { amount: 2900, ...ofSecond })])
    expect(effectsOf(recorded)).toEqual(['paid', 'charged_back du_1'])
    expect(kindsOf(recorded)).toEqual(['ch_2 chargeback 2900'])
  })
})

describe('a purchase', () => {
  const subscribed = { mode: 'subscription' as const, subscription_ref: 'sub_1' }
  const began = { ...paid, subscriptionRef: 'sub_1', invoiceRef: 'in_1' }
  const first = invoice('in_1', start, { reason: 'first' })
  const paidBy = (invoiceRef: string, paymentRef: string) =>
    ({ kind: 'invoice_payment', invoiceRef, paymentRef }) as const

  test('of a subscription is valid for its period and the grace after it', () => {
    const { decisions } = record(givenHistory(subscribed), [first, began, charged])
    const effect = decisions.flatMap((decision) => decision.effects).find((effect) => effect.kind === 'paid')
    expect(effect?.ends_at).toEqual(new Date(start + 44 * day))
  })

  test('follows the price of a paid invoice to the plan that it is mapped to', () => {
    const history = {
      ...givenHistory(subscribed),
      prices: new Map([['price_2', { plan_id: 'pln_2', updates_months: null }]]),
    }
    const next = invoice('in_2', start + 30 * day, { priceRef: 'price_2' })
    const { decisions } = record(history, [began, charged, first, next])
    const renewed = decisions
      .flatMap((decision) => decision.effects)
      .find((effect) => effect.kind === 'renewed')
    expect(renewed).toMatchObject({ plan_id: 'pln_2', ends_at: new Date(start + 74 * day), cause: 'in_2' })
  })

  test('ends with a refund of its latest paid cycle, and not of an earlier one or of a proration', () => {
    const second2 = invoice('in_2', start + 30 * day)
    const change = invoice('in_3', start + 35 * day, { reason: 'proration', periodEnd: start + 60 * day })
    const charge = (ref: string, paymentRef: string, at: number) => ({
      ...charged,
      chargeRef: ref,
      paymentRef,
      chargedAt: at,
    })
    const facts = [
      began,
      first,
      charged,
      second2,
      paidBy('in_2', 'pi_2'),
      charge('ch_2', 'pi_2', start + 30 * day),
      change,
      paidBy('in_3', 'pi_3'),
      charge('ch_3', 'pi_3', start + 35 * day),
    ]
    const of = (ref: string, paymentRef: string) =>
      refund(`re_${ref}`, start + 40 * day, { chargeRef: `ch_${ref}`, paymentRef })
    const recorded = (...refunds: object[]) =>
      effectsOf(record(givenHistory(subscribed), [...facts, ...refunds] as typeof facts, { together: true }))
    expect(recorded(of('1', 'pi_1'))).toContain('nothing re_1')
    expect(recorded(of('3', 'pi_3'))).toContain('nothing re_3')
    expect(recorded(of('2', 'pi_2'))).toContain('refunded re_2')
    const chargeback = dispute('du_1', start + 40 * day)
    expect(recorded(chargeback)).toContain('nothing du_1')
  })

  test('rests on the cycle that was paid before its cancellation, whatever was paid after it', () => {
    const paidAfter = [
      invoice('in_2', start + 20 * day),
      paidBy('in_2', 'pi_2'),
      { ...charged, chargeRef: 'ch_2', paymentRef: 'pi_2', chargedAt: start + 20 * day },
    ]
    const ended = { kind: 'subscription_ended', subscriptionRef: 'sub_1', endedAt: start + 10 * day }
    const known = [began, first, charged, ended, ...paidAfter] as Fact[]
    const of = (chargeRef: string, paymentRef: string) =>
      refund('re_1', start + 25 * day, { chargeRef, paymentRef })
    const recorded = (back: Fact) =>
      effectsOf(record(givenHistory(subscribed), [...known, back], { together: true }))
    expect(recorded(of('ch_1', 'pi_1'))).toContain('refunded re_1')
    expect(recorded(of('ch_2', 'pi_2'))).toContain('nothing re_1')
  })

  test('of a subscription is paid until the end of its latest paid period, renews until it is set to end, and ends, in every order', () => {
    const renewed = invoice('in_2', start + 30 * day, { periodEnd: start + 60 * day })
    const setAt = start + 40 * day
    const toEnd: Fact = {
      kind: 'end_scheduled',
      subscriptionRef: 'sub_1',
      endsAt: start + 60 * day,
      endsAtBefore: null,
      at: setAt,
    }
    const undone: Fact = { ...toEnd, endsAt: null, endsAtBefore: toEnd.endsAt, at: setAt + day }
    const ended: Fact = { kind: 'subscription_ended', subscriptionRef: 'sub_1', endedAt: start + 60 * day }
    const paidUntil = new Date(start + 60 * day)
    for (const [facts, expected] of [
      [[first], { paid_until: new Date(start + 30 * day), renews: true, has_ended: false }],
      [[first, renewed], { paid_until: paidUntil, renews: true, has_ended: false }],
      [[first, renewed, toEnd], { paid_until: paidUntil, renews: false, has_ended: false }],
      [[first, renewed, toEnd, undone], { paid_until: paidUntil, renews: true, has_ended: false }],
      [[first, renewed, toEnd, ended], { paid_until: paidUntil, renews: false, has_ended: true }],
    ] as const) {
      for (const order of permutations([...facts])) {
        const { history, decisions } = record(givenHistory(subscribed), [began, charged, ...order])
        expect(history.session).toMatchObject(expected)
        // Known values are not written again.
        expect(decisions.at(-1)!.session).toEqual({})
      }
    }
  })

  test('of something that is paid once has no period', () => {
    const { history } = record(givenHistory(), [paid, charged])
    expect(history.session).toMatchObject({ paid_until: null, renews: null, has_ended: null })
  })

  const invoiceFailed = (invoiceRef: string, at: number) =>
    ({ kind: 'invoice_failed', invoiceRef, subscriptionRef: 'sub_1', attempt: 1, at }) as const
  // The order in which licensing applies effects of the same time.
  const rankOf = ({ kind }: { kind: string | null }) =>
    ['renewed', 'payment_failed', 'partially_refunded'].indexOf(kind ?? '')

  test('is suspended by three failures in a row and renewed when it is paid, once each', () => {
    const failed = (attempt: number, at: number) => ({ ...invoiceFailed('in_2', at), attempt })
    const facts = [began, first, charged, failed(1, start + 30 * day), failed(3, start + 35 * day)]
    const recorded = record(givenHistory(subscribed), [...facts, failed(3, start + 35 * day)])
    expect(effectsOf(recorded)).toEqual(['paid', 'payment_failed in_2'])
  })

  test('within one second, a refund of one cycle comes before the payment of the next, and a failure before its payment', () => {
    const at = start + 30 * day
    const partial = refund('re_1', at, { amount: 100 })
    const next = invoice('in_2', at)
    const paysNext = [
      paidBy('in_2', 'pi_2'),
      { ...charged, chargeRef: 'ch_2', paymentRef: 'pi_2', chargedAt: at },
    ]
    const ofNext = refund('re_2', at, { chargeRef: 'ch_2', paymentRef: 'pi_2', amount: 100 })
    const failed = { ...invoiceFailed('in_2', at), attempt: 3 }
    const ended = { kind: 'subscription_ended', subscriptionRef: 'sub_1', endedAt: at }
    for (const facts of permutations([partial, next, failed, ofNext])) {
      const known = [began, first, charged, ...paysNext, ...facts, ended] as Fact[]
      const { decisions } = record(givenHistory(subscribed), known)
      const sent = decisions
        .flatMap((decision) => decision.effects)
        .filter(({ kind }) => kind !== null && kind !== 'paid')
        .toSorted((one, other) => one.at.getTime() - other.at.getTime() || rankOf(one) - rankOf(other))
        .map(({ kind, cause }) => `${kind} ${cause}`)
      const order = [
        'payment_failed in_2',
        'partially_refunded re_1',
        'renewed in_2',
        'partially_refunded re_2',
      ]
      expect([...order, 'cancelled sub_1'].filter((each) => sent.includes(each))).toEqual(sent)
      expect(sent.slice(-3)).toEqual(['renewed in_2', 'partially_refunded re_2', 'cancelled sub_1'])
    }
  })

  test('whose charge turns out to be earlier has its order corrected', () => {
    const recorded = record(givenHistory(), [paid, { ...charged, chargedAt: start - 5 * second }])
    expect(effectsOf(recorded)).toEqual(['paid', 'order_corrected cs_1'])
  })

  test('is not closed by a checkout that was replaced by another', () => {
    const expired = { ...paid, checkoutRef: 'cs_test_0', state: 'expired' as const }
    expect(record(givenHistory(), [expired]).history.session.status).toBe('open')
    const own = { ...paid, state: 'expired' as const }
    expect(record(givenHistory(), [own]).history.session.status).toBe('expired')
  })

  test.each([
    ['that was cancelled is listed as it was when it was made', 'canceled', 'partial_refund'],
    ['that is pending is listed as the last refund', 'pending', 'full_refund'],
  ] as const)('with a refund %s, in any order of the facts', (_, status, kind) => {
    const facts = [
      charged,
      refund('re_1', start + day, { amount: 3000, status }),
      refund('re_2', start + 2 * day, { amount: 1900 }),
    ]
    for (const order of permutations(facts)) {
      const { refunds } = record(givenHistory(), [paid, ...order]).history
      expect(refunds.toSorted((a, b) => (a.ref < b.ref ? -1 : 1))).toMatchObject([
        { ref: 're_1', kind, status },
        { ref: 're_2', kind: 'partial_refund', status: 'succeeded' },
      ])
    }
  })

  test.each<[string, Fact]>([
    ['a refund', refund('re_1', start + day)],
    ['a dispute', dispute('du_1', start + day)],
  ])('whose charge the processor does not show has the charge that %s names', (_, reversal) => {
    const questions: Question[] = [{ kind: 'charge', ref: 'pi_1', attempts: 1, found: false }]
    for (const facts of permutations([paid, reversal])) {
      const history = { ...givenHistory(), questions }
      const { payments } = record(history, facts).history
      expect(payments).toMatchObject([{ payment_ref: 'pi_1', charge_ref: 'ch_1' }])
    }
  })

  test('with a reported refund waits for other refunds that may be earlier', () => {
    const known = [recorded(paid, start), recorded(charged, start), recorded(refund('re_1', start), start)]
    const history = { ...givenHistory(), facts: known }
    const at = (seconds: number, questions: Question[] = []) =>
      decide({ ...history, questions }, new Date(start + seconds * second), rules)
    const soon = at(1)
    expect(soon.effects.map((effect) => effect.kind)).toEqual(['paid'])
    expect(soon.questions).toMatchObject([{ kind: 'records' }])
    // The processor does not answer. Its events, which may say more, are waited for, but not for long.
    const unanswered = [{ ...soon.questions[0]!, attempts: maxUnanswered, found: null }]
    const waiting = at(1, unanswered)
    expect(waiting.effects.map((effect) => effect.kind)).toEqual(['paid'])
    expect(waiting.questions).toMatchObject([{ kind: 'events' }])
    expect(waiting.next).toEqual(new Date(start + 2 * second))
    expect(at(2, unanswered).next).toEqual(new Date(start + 3 * second))
    // A revocation asks once more for the events: the newest may prevent it.
    const looked: Question[] = [
      { ...waiting.questions[0]!, attempts: 1, found: true },
      { kind: 'events', ref: 're_1', attempts: 1, found: true },
    ]
    expect(at(2, [...unanswered, looked[0]!]).questions).toMatchObject([{ kind: 'events', ref: 're_1' }])
    for (const later of [at(2, [...unanswered, ...looked]), at(3, unanswered)]) {
      expect(later.effects.map((effect) => effect.kind)).toEqual(['paid', 'refunded'])
    }
  })

  test('whose refund succeeded at a time that only an event says has its effects in the order of the events', () => {
    const succeeded = refund('re_1', start, { amount: 100, reportedAt: undefined })
    const facts: Fact[] = [
      paid,
      { ...charged, refunded: 100 },
      { ...succeeded, status: 'pending', reportedAt: start },
      dispute('du_1', start + second),
      // The processor's record says only when it was made.
      succeeded,
    ]
    const at = (known: Fact[], seconds: number, questions: Question[]) =>
      decide(
        { ...givenHistory(), facts: known.map((fact) => recorded(fact, start)), questions },
        new Date(start + seconds * second),
        rules,
      )
    const answered = (questions: readonly Pick<Question, 'kind' | 'ref'>[]): Question[] =>
      questions.map(({ kind, ref }) => ({ kind, ref, attempts: 1, found: true }))
    const read = answered(at(facts, 0, []).questions)
    const { effects, questions } = at(facts, 2, read)
    expect(effects.map((effect) => effect.kind)).toEqual(['paid'])
    expect(questions).toMatchObject([{ kind: 'events' }])
    const event = { ...succeeded, reportedAt: start + 2 * second }
    const later = at([...facts, event], 3, [...read, ...answered(questions)])
    expect(later.effects.map((effect) => effect.kind)).toEqual(['paid', 'charged_back', 'partially_refunded'])
  })

  test('whose refunds had been pending for long has the order in which events say that they succeeded', () => {
    const amounts = { re_1: 1900, re_2: 3000 }
    const pending = Object.entries(amounts).map(([ref, amount]) =>
      recorded({ ...refund(ref, start, { amount }), status: 'pending', reportedAt: start }, start),
    )
    // The processor's records say only that both have succeeded.
    const succeeded = Object.entries(amounts).map(([ref, amount]) =>
      recorded(refund(ref, start, { amount, reportedAt: undefined }), start + day),
    )
    const facts = [
      recorded(paid, start),
      recorded(charged, start),
      ...pending,
      recorded({ ...charged, refunded: 4900 }, start + day),
      ...succeeded,
    ]
    const at = (seconds: number, questions: Question[], events: Fact[] = []) => {
      const all = [...facts, ...events.map((fact) => recorded(fact, start + day + second))]
      return decide(
        { ...givenHistory(), facts: all, questions },
        new Date(start + day + seconds * second),
        rules,
      )
    }
    const answered = (questions: readonly Pick<Question, 'kind' | 'ref'>[]): Question[] =>
      questions.map(({ kind, ref }) => ({ kind, ref, attempts: 1, found: true }))
    const read = answered(at(0, []).questions)
    const asking = at(0, read)
    expect(asking.effects.map((effect) => effect.kind)).toEqual(['paid'])
    expect(asking.questions).toMatchObject([{ kind: 'events' }])
    const events = [
      { ...refund('re_2', start, { amount: 3000 }), reportedAt: start + day },
      { ...refund('re_1', start, { amount: 1900 }), reportedAt: start + day + second },
    ]
    const { refunds } = at(4, [...read, ...answered(asking.questions)], events)
    expect(Object.fromEntries(refunds.map(({ ref, kind }) => [ref, kind]))).toEqual({
      re_1: 'full_refund',
      re_2: 'partial_refund',
    })
  })

  test('whose charge was refunded more than is known asks for the list of its refunds, and makes none up', () => {
    const { history, decisions } = record(givenHistory(), [paid, charged, { ...charged, refunded: 1000 }])
    const asked = decisions.flatMap(({ questions }) => questions.map(({ kind, ref }) => `${kind} ${ref}`))
    expect(asked).toContainEqual(expect.stringMatching(/^records ch_1:1000:/))
    expect(history.refunds).toEqual([])
    const known = record(history, [refund('re_1', start + day, { amount: 1000 })]).history
    expect(known.refunds).toMatchObject([{ ref: 're_1', kind: 'partial_refund' }])
  })

  test('whose facts are all known delays only its revocation', () => {
    const known = [charged, { ...charged, refunded: 4900 }]
    const facts = [paid, ...known, refund('re_1', start)].map((fact) => recorded(fact, start))
    const kindsAt = (facts: RecordedFact[], seconds: number) => {
      const history = { ...givenHistory(), facts }
      const { questions } = decide(history, new Date(start), rules)
      const answered = questions.map(({ kind, ref }) => ({ kind, ref, attempts: 1, found: true }))
      const { effects } = decide(
        { ...history, questions: answered },
        new Date(start + seconds * second),
        rules,
      )
      return effects.map((effect) => effect.kind)
    }
    expect(kindsAt(facts, 1)).toEqual(['paid'])
    expect(kindsAt([...facts, recorded(dispute('du_1', start), start)], 1)).toEqual(['paid'])
    const partial = recorded(refund('re_1', start, { amount: 100 }), start)
    const part = [...facts.slice(0, 2), recorded({ ...charged, refunded: 100 }, start), partial]
    expect(kindsAt(part, 1)).toEqual(['paid', 'partially_refunded'])
  })

  test('is decided once: a second decision of the same history adds nothing', () => {
    const facts = [paid, charged, refund('re_1', start + day), dispute('du_1', start + 2 * day)]
    const { history } = record(givenHistory(), facts)
    const again = decide(history, new Date(start + 200 * day), rules)
    expect(again).toMatchObject({
      payments: [],
      refunds: [],
      entries: [],
      effects: [],
      alerts: [],
      session: {},
    })
  })
})

test('the end of the first period is asked from the first invoice, and from the subscription only if there is no answer', () => {
  const checkout: Fact = { ...paid, subscriptionRef: 'sub_1', invoiceRef: 'in_1' }
  const history = {
    ...givenHistory({ mode: 'subscription' }),
    facts: [recorded(checkout, start), recorded(charged, start)],
  }
  const asked = (questions: Question[]) => decide({ ...history, questions }, new Date(start), rules).questions
  expect(asked([])).toMatchObject([{ kind: 'invoice', ref: 'in_1' }])
  expect(asked([{ kind: 'invoice', ref: 'in_1', attempts: 1, found: false }])).toMatchObject([
    { kind: 'subscription', ref: 'sub_1' },
  ])
})
