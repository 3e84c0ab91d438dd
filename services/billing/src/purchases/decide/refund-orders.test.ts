import { array, assert, constantFrom, integer, option, property, record } from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Fact } from '../../processor/facts.ts'
import { decide } from './decide.ts'
import type { Decision, History } from './decision.ts'
import {
  after,
  charged,
  day,
  failure,
  givenHistory,
  longEnough,
  paid,
  permutations,
  recorded,
  refund,
  start,
  rules,
} from '../../../test/histories.ts'
import { maxUnanswered } from '../../timing.ts'

// The test tries one in this many of the sets of decision moments. The number has no common factor with the number of sets.
const oneIn = Number(process.env['ORDER_SAMPLE'] ?? 101)
const look = 'look'
type Step = Fact | typeof look

interface Story {
  /** The first refund is of 1000, the second of 3900, of a charge of 4900. */
  refunds: [string, string]
  /** Whether the processor's records can be read. */
  records: 'read' | 'unavailable'
  /** Seconds between the two refunds. */
  apart: number
}

function factsOf({ refunds: [small, large], apart }: Story): [Fact, Fact, Fact, Fact, Fact] {
  const at = start + day
  const later = at + apart * 1000
  return [
    charged,
    refund(small, at, { amount: 1000 }),
    refund(large, later, { amount: 3900 }),
    { ...charged, refunded: 1000, reportedAt: at },
    { ...charged, refunded: 4900, reportedAt: later },
  ]
}

/** All decisions, and the final history. */
interface Ended {
  history: History
  decisions: Decision[]
}

/**
 * Goes through the steps and decides after each step that `decided` selects, with enough time for consequences. A
 * decision is sent at once, or not before the end.
 */
function goThrough(steps: Step[], decided: number, story: Story, isSent: boolean): Ended {
  const decisions: Decision[] = []
  let history = givenHistory()
  let clock = start + 100 * day
  const records = factsOf(story)
  const decideNow = () => {
    clock += longEnough
    const decision = decide(history, new Date(clock), rules)
    decisions.push(decision)
    history = after(history, decision)
    history.questions = [
      ...history.questions,
      ...decision.questions.map(({ kind, ref }) => ({ kind, ref, attempts: 0, found: null })),
    ]
    if (!isSent) return
    const sent = new Set(decision.effects.map((effect) => effect.refund_id))
    history.refunds = history.refunds.map((row) => ({ ...row, processed: row.processed || sent.has(row.id) }))
  }
  const answer = () => {
    const isRead = story.records === 'read'
    history.questions = history.questions.map((question) =>
      isRead ? { ...question, found: true } : { ...question, attempts: maxUnanswered },
    )
    if (!isRead) return
    const [charge, small, large, , all] = records
    const known = [charge, all, { ...small, reportedAt: undefined }, { ...large, reportedAt: undefined }]
    history.facts = [...history.facts, ...known.map((fact) => recorded(fact as Fact, clock))]
  }
  steps.forEach((step, at) => {
    clock += 1
    if (step === look) answer()
    else history = { ...history, facts: [...history.facts, recorded(step, clock)] }
    if (decided & (1 << at)) decideNow()
  })
  // An answer may contain refunds that were not known, about which the next question is asked.
  for (let times = 0; times < 3; times += 1) {
    decideNow()
    answer()
  }
  decideNow()
  return { history, decisions }
}

function check({ history, decisions }: Ended, name: string): void {
  const effects = decisions.flatMap((decision) => decision.effects)
  const kinds = new Map(effects.map((effect) => [effect.refund_id, effect.kind]))
  const sum = history.refunds.reduce((total, row) => total + row.amount, 0n)
  const problems = [
    ...(effects.filter((effect) => effect.kind === 'refunded').length === 1 ? [] : ['refunded not once']),
    ...(sum === 4900n ? [] : [`refunds of ${sum}`]),
    ...history.refunds
      .filter((row) => (row.kind === 'full_refund') !== (kinds.get(row.id) === 'refunded'))
      .map((row) => `${row.ref} is listed as ${row.kind} and was sent as ${String(kinds.get(row.id))}`),
  ]
  const ledger = history.ledger.map((entry) => entry.kind).join(' ')
  if (ledger !== 'charge credit') problems.push(`ledger: ${ledger}`)
  if (problems.length > 0) expect.fail(`${name}: ${problems.join('; ')}`)
}

const nameOf = (step: Step) =>
  step === look
    ? look
    : step.kind === 'refund'
      ? `refund ${step.amount}`
      : step.kind === 'charge'
        ? `charge ${step.refunded}`
        : step.kind

describe('a charge that is refunded in two parts ends with one full refund, of the kind that is listed', () => {
  const stories: Story[] = (['read', 'unavailable'] as const).flatMap((records) =>
    [0, 1].flatMap((apart) =>
      (
        [
          ['re_1', 're_2'],
          ['re_2', 're_1'],
        ] as [string, string][]
      ).map((refunds) => ({ refunds, records, apart })),
    ),
  )
  test.each(stories)(
    'in every order of facts and decisions: %o',
    (story) => {
      const facts = factsOf(story)
      let tried = 0
      for (const steps of permutations<Step>([...facts, look])) {
        // The sale is known first, or last.
        for (const order of [
          [paid, ...steps],
          [...steps, paid],
        ] as Step[][]) {
          for (let decided = 0; decided < 2 ** order.length; decided += 1) {
            if ((decided + tried) % oneIn !== 0) continue
            const isSent = decided % 2 === 0
            const name = order.map((step, at) => nameOf(step) + (decided & (1 << at) ? ' | ' : ', ')).join('')
            check(goThrough(order, decided, story, isSent), name)
          }
          tried += 1
        }
      }
      expect(tried).toBe(1_440)
    },
    120_000,
  )
})

/** Events arrive a second apart. Each is decided when it arrives, and again at the time that the decision names. */
function arrive(facts: Fact[]): History {
  const begin = start + 100 * day
  const answered = 4_000
  let history = givenHistory()
  let next: number | undefined
  const decideAt = (clock: number) => {
    history.questions = history.questions.map((question) => ({
      ...question,
      attempts: clock >= begin + facts.length * 1_000 + answered ? maxUnanswered : question.attempts,
    }))
    const decision = decide(history, new Date(clock), rules)
    const asked = decision.questions.map(({ kind, ref }) => ({ kind, ref, attempts: 0, found: null }))
    history = after(history, decision)
    history.questions = [...history.questions, ...asked]
    next = decision.next?.getTime()
  }
  facts.forEach((fact, at) => {
    const clock = begin + at * 1_000
    while (next !== undefined && next < clock) decideAt(next)
    history = { ...history, facts: [...history.facts, recorded(fact, clock)] }
    decideAt(clock)
  })
  const unanswered = begin + facts.length * 1_000 + answered
  decideAt(unanswered)
  while (next !== undefined && next < begin + day) decideAt(next)
  return history
}

test('a refund that arrives seconds after the events of a later one stays the earlier one, in every order', () => {
  const at = start + day
  const events: Fact[] = [
    paid,
    refund('re_1', at, { amount: 1000 }),
    refund('re_2', at + day, { amount: 3900 }),
    { ...charged, refunded: 1000, reportedAt: at + 1_000 },
    { ...charged, refunded: 4900, reportedAt: at + day + 1_000 },
  ]
  const wrong = permutations<Fact>(events).filter((order) => {
    const found = arrive(order).refunds.map(({ ref, kind }) => `${ref} ${kind}`)
    return found.sort().join() !== 're_1 partial_refund,re_2 full_refund'
  })
  expect(wrong.map((order) => order.map(nameOf).join(', '))).toEqual([])
})

interface Drawn {
  amount: number
  after: number
  failsAfter: number | null
}

interface Made {
  amount: number
  at: number
  failsAt: number | null
}

function standingAt(made: Made[], at: number): number {
  const standing = made.filter((each) => each.at <= at && (each.failsAt === null || each.failsAt > at))
  return standing.reduce((sum, each) => sum + each.amount, 0)
}

/** The refunds that the processor would accept: each is at most the rest of the charge. */
function possible(drawn: Drawn[]): Made[] {
  const made: Made[] = []
  let at = 0
  for (const { amount, after: pause, failsAfter } of drawn) {
    at += pause
    if (amount + standingAt(made, at) > 4900) continue
    made.push({ amount, at, failsAt: failsAfter === null ? null : at + failsAfter })
  }
  return made
}

const seconds = (ms: number) => start + day + Math.floor(ms / 1000) * 1000

test('a charge that is refunded completely ends as refunded, with any refunds, failures, orders and times of decision', () => {
  const parts = array(
    record({
      amount: constantFrom(1000, 1900, 3000, 3900, 4900),
      // The time is in milliseconds, but the processor reports seconds.
      after: integer({ min: 0, max: 1_000 }),
      failsAfter: option(integer({ min: 1, max: 2_000 })),
    }),
    { minLength: 1, maxLength: 4 },
  ).map(possible)
  const places = array(integer({ min: 0, max: 1_000 }), { minLength: 12, maxLength: 12 })
  let refundCount = 0
  const inAnyOrder = property(
    parts,
    places,
    integer({ min: 0, max: 2 ** 12 - 1 }),
    (parts, places, decided) => {
      const facts = parts.flatMap(({ amount, at, failsAt }, number): Fact[] => {
        const [ref, succeeded] = [`re_${(number * 3) % 4}`, seconds(at)]
        const success = refund(ref, succeeded, { amount })
        return failsAt === null
          ? [success]
          : [success, { ...failure(ref, succeeded, seconds(failsAt)), amount }]
      })
      const left: Step[] = [paid, charged, ...facts]
      const steps = places.flatMap((place) => left.splice(place % Math.max(1, left.length), 1))
      const story: Story = { refunds: ['re_1', 're_2'], records: 'unavailable', apart: 0 }
      const { history, decisions } = goThrough(steps, decided, story, decided % 2 === 0)
      const effects = decisions.flatMap((decision) => decision.effects)
      const kinds = new Map(effects.map((effect) => [effect.refund_id, effect.kind]))
      for (const row of history.refunds) {
        const isFull = kinds.get(row.id) === 'refunded'
        expect({ ref: row.ref, kind: row.kind }).toMatchObject({
          kind: isFull ? 'full_refund' : 'partial_refund',
        })
      }
      if (standingAt(parts, Infinity) < 4900) return
      refundCount += 1
      expect([...kinds.values()]).toContain('refunded')
    },
  )
  assert(inAnyOrder, { numRuns: 600 })
  expect(refundCount).toBeGreaterThan(15)
})
