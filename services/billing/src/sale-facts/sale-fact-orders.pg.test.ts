import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { ReportSaleFactRequestSchema } from '@licensing/proto/billing'
import { drawing, isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { array, constantFrom, integer, record, sample } from 'fast-check'
import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import {
  checkoutRefOf,
  handled,
  licencesOf,
  openCheckout,
  pay,
  paymentsOf,
  recordSale,
  scope,
} from '../../test/shop.ts'
import { shuffled, numbersFrom } from '../../test/shuffle.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()
const seed = Number(process.env['TEST_SEED'] ?? Date.now() % 100_000)

/** The customer of a shop, who may also have bought at the processor. Days are counted from the first sale. */
const stories = sample(
  record({
    /** The days of one or two sales; the second may follow the first. */
    sales: array(integer({ min: 0, max: 40 }), { minLength: 1, maxLength: 2 }),
    isAtProcessor: constantFrom(true, false),
    facts: array(
      record({
        what: constantFrom(
          'renewal',
          'renewal',
          'failure',
          'failure',
          'failure',
          'refund',
          'chargeback',
          'cancellation',
        ),
        of: integer({ min: 0, max: 1 }),
        on: integer({ min: 0, max: 80 }),
        amount: constantFrom(30, 70, 100),
        ofRenewal: constantFrom(true, false),
      }),
      { minLength: 1, maxLength: 7 },
    ),
    seed: integer({ min: 1, max: 2 ** 30 }),
  }),
  { numRuns: isFull ? 60 : 3, seed },
)
type Story = (typeof stories)[number]

const begins = Date.now() - 100 * 86_400_000
const day = (days: number) => timestampFromDate(new Date(begins + days * 86_400_000))

type Report = MessageInitShape<typeof ReportSaleFactRequestSchema>

/** The reports of a story in order of time. They come after their sale, each sale is cancelled at most once, and times differ. */
function reportsOf({ facts, sales }: Story, vendor: Vendor): Report[] {
  const lastRenewal = new Map<number, string>()
  const cancelled = new Set<number>()
  const left = new Map<string, number>()
  return facts
    .map((fact, at) => ({ ...fact, on: Math.max(fact.on, sales[fact.of % sales.length]!) + (at + 1) / 100 }))
    .toSorted((a, b) => a.on - b.on)
    .flatMap(({ what, of, on, amount, ofRenewal }, at): Report[] => {
      const sale = of % sales.length
      const id = `${what}-${at}`
      const about = { ...scope(vendor), saleId: `order-${sale}`, occurredAt: day(on) }
      const hashed = (fact: NonNullable<Report['fact']>): Report[] => [
        { ...about, fact, bodyHash: createHash('sha256').update(id).digest() },
      ]
      if (what === 'renewal') {
        lastRenewal.set(sale, id)
        return hashed({ case: what, value: { id, amount: 100n, currency: 'usd', expiresOn: day(on + 120) } })
      }
      if (what === 'failure') return hashed({ case: what, value: { id } })
      if (what === 'cancellation') {
        if (cancelled.has(sale)) return []
        cancelled.add(sale)
        return hashed({ case: what, value: ofRenewal ? { endsOn: day(on + amount) } : {} })
      }
      const renewalId = ofRenewal ? lastRenewal.get(sale) : undefined
      const payment = `${sale} ${renewalId}`
      const remaining = left.get(payment) ?? 100
      if (what === 'refund') {
        if (amount > remaining) return []
        left.set(payment, remaining - amount)
      }
      const value = { id, amount: BigInt(amount), kind: what, ...(renewalId !== undefined && { renewalId }) }
      return hashed({ case: 'refund', value })
    })
}

async function tell(
  story: Story,
  arrange: (story: Story, steps: (() => Promise<unknown>)[]) => (() => Promise<unknown>)[],
  eachAlone: boolean,
) {
  const vendor = await harness.givenVendor({ price: { updatesMonths: 6 } })
  if (story.isAtProcessor) {
    const session = await openCheckout(harness, vendor, { externalRef: 'cust-1' })
    await pay(harness, session, { created: Math.floor(begins / 1000) + 60 })
    await eventually(async () => expect(await licencesOf(harness, vendor)).toHaveLength(1))
    expect(checkoutRefOf(session)).toBeTruthy()
  }
  const sales = story.sales.map(
    (on, at) => () =>
      recordSale(harness, vendor, {
        saleId: `order-${at}`,
        priceId: vendor.priceId,
        amount: 100n,
        occurredAt: day(on + at / 1000),
        expiresOn: day(on + 150),
      }),
  )
  const reports = reportsOf(story, vendor).map(
    (report) => () => harness.billing.reportSaleFact(create(ReportSaleFactRequestSchema, report)),
  )
  for (const step of arrange(story, [...sales, ...reports])) {
    await step()
    if (eachAlone) await handled(harness, vendor)
  }
  await handled(harness, vendor)
  const licences = await licencesOf(harness, vendor)
  const { sent, ...outcome } = await outcomeOf(harness, vendor)
  return {
    ...outcome,
    refunded: sent.filter((event) => event.startsWith('refund')),
    payments: (await paymentsOf(harness, vendor))
      .map(({ saleId, chargeRef, amount }) => `${saleId} ${saleId && chargeRef} ${amount}`)
      .toSorted(),
    // A revoked licence keeps the ends that it had.
    ends: licences.map(({ status, expiresOn, updatesUntil }) =>
      status === 'revoked' ? '' : `${expiresOn?.seconds} ${updatesUntil?.seconds}`,
    ),
  }
}

test.each(stories)(
  `purchases in shops end the same in any order of reports (${drawing}): %j`,
  async (story) => {
    const inOrder = await tell(story, (_, steps) => steps, true)
    const backwards = await tell(story, (_, steps) => steps.toReversed(), false)
    const mixed = await tell(
      story,
      ({ seed }, steps) => {
        const next = numbersFrom(seed)
        return shuffled([...steps, ...steps.filter(() => next(2) === 0)], next)
      },
      false,
    )
    expect(backwards).toEqual(inOrder)
    expect(mixed).toEqual(inOrder)
  },
)
