import { eventually } from '@licensing/test-support/poll'
import { afterAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import { startProcessorProxy } from '../../test/processor-proxy.ts'
import { applicationFeesOf, givenSold, handled, ledgerOf } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'
import { startFeeRefunds } from './fee-refunds.ts'

/** A point at which a request about the application fee of a charge is interrupted. */
interface Step {
  method: 'GET' | 'POST'
  /** `before`: the request does not arrive. `after`: its answer does not return. */
  when: 'before' | 'after'
}

class Interruption {
  readonly step: Step
  /** How many requests to refund the fee were begun. */
  begun = 0
  readonly reached = Promise.withResolvers<void>()
  readonly released = Promise.withResolvers<'goes on' | 'is cut'>()
  #isOver = false

  constructor(step: Step) {
    this.step = step
  }

  /** Waits at the step until it is released, and throws if the request is cut. */
  async pass(method: string, when: Step['when']): Promise<void> {
    if (this.#isOver || method !== this.step.method || when !== this.step.when) return
    this.reached.resolve()
    const how = await this.released.promise
    this.#isOver = true
    if (how === 'is cut') throw new Error('the connection is cut')
  }
}

/** By charge, and also by its application fee as soon as the processor has shown it. */
const interruptions = new Map<string, Interruption>()

const proxy = await startProcessorProxy(async ({ method, url }, forward) => {
  const [, fee, charge] = /^\/v1\/application_fees(?:\/(\w+)|\?charge=(\w+))/.exec(url) ?? []
  const interruption = interruptions.get(fee ?? charge ?? '')
  if (!interruption) return forward()
  if (method === 'POST') interruption.begun += 1
  await interruption.pass(method, 'before')
  const answer = await forward()
  const { data } = JSON.parse(answer.text) as { data?: { id: string }[] }
  if (data?.[0]) interruptions.set(data[0].id, interruption)
  await interruption.pass(method, 'after')
  return answer
})
const harness = await startHarness(proxy)
// An interrupted loop waits, so each concurrent test needs a loop.
const loops = Array.from({ length: 4 }, () => startFeeRefunds(harness.deps))
afterAll(async () => {
  await Promise.all(loops.map((loop) => loop.stop()))
  await harness[Symbol.asyncDispose]()
  await proxy[Symbol.asyncDispose]()
})

const refundedFeeOf = async (charge: string) => (await applicationFeesOf(harness, charge))[0]?.amount_refunded

const ofVendor = (vendor: Vendor) => harness.sql`
  payment_id in (select id from payments where account_id = ${vendor.accountId})`

/** Ends the leases and pauses of the vendor's fee refunds. */
const makeDue = (vendor: Vendor) =>
  harness.sql`update fee_refunds set next_at = now() where done_at is null and ${ofVendor(vendor)}`

/** How many fee refunds of the vendor are open, and how many of them are due. */
async function feeRefundsOf(vendor: Vendor) {
  const [row] = await harness.sql<{ open: number; due: number }[]>`
    select count(*)::int as open, (count(*) filter (where next_at <= now()))::int as due
    from fee_refunds where done_at is null and ${ofVendor(vendor)}`
  return row!
}

const untilDone = (vendor: Vendor) =>
  eventually(async () => {
    await makeDue(vendor)
    expect(await feeRefundsOf(vendor)).toMatchObject({ open: 0 })
  })

const sumOf = (ledger: string[]) => ledger.reduce((sum, entry) => sum + Number(entry.split(' ')[1]), 0)

/** A refund of a sale whose fee refund has reached this step. */
async function givenInterrupted(step: Step) {
  const vendor = await harness.givenVendor()
  const { charge } = await givenSold(harness, vendor)
  const interruption = new Interruption(step)
  interruptions.set(charge, interruption)
  const { id: refund } = await harness.simulator.control<{ id: string }>('refund', { charge })
  await interruption.reached.promise
  return { vendor, charge, refund, interruption }
}

const credited = ['charge 245', 'credit -245']
const reversed = [...credited, 'reversal 245']
const creditedAgain = [...reversed, 'credit -245']

describe.concurrent('of a sale,', () => {
  test.each<[string, Step, 'goes on' | 'is cut', string[]]>([
    ['the answer to the query of the fee is lost', { method: 'GET', when: 'after' }, 'is cut', reversed],
    ['the answer to the query arrives late', { method: 'GET', when: 'after' }, 'goes on', reversed],
    ['the fee refund does not arrive', { method: 'POST', when: 'before' }, 'is cut', reversed],
    ['the fee refund arrives late', { method: 'POST', when: 'before' }, 'goes on', creditedAgain],
    ['the answer to it is lost', { method: 'POST', when: 'after' }, 'is cut', creditedAgain],
    ['the answer to it arrives late', { method: 'POST', when: 'after' }, 'goes on', creditedAgain],
  ])(
    'processor and ledger agree on a refund that succeeds, whose fee refund is interrupted (%s), and that then fails',
    async (_, step, how, expected) => {
      const { vendor, charge, refund, interruption } = await givenInterrupted(step)
      expect(await ledgerOf(harness, vendor)).toEqual(credited)
      await harness.simulator.control('refund-status', { refund, status: 'failed' })
      await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(reversed))
      const { begun } = interruption
      interruption.released.resolve(how)
      await makeDue(vendor)
      await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(expected))
      // Then the time passes in which a request may still take effect.
      await makeDue(vendor)
      await eventually(async () => expect(await feeRefundsOf(vendor)).toMatchObject({ due: 0 }))
      await harness.sql`
      update fee_refunds set cancelled_at = cancelled_at - interval '2 hours' where ${ofVendor(vendor)}`
      await untilDone(vendor)
      expect(interruption.begun).toBe(begun)
      expect(await ledgerOf(harness, vendor)).toEqual(expected)
      expect(await refundedFeeOf(charge)).toBe(245 - sumOf(expected))
      // After another refund there is one credit, whether or not it was posted before.
      await harness.simulator.control('refund', { charge })
      await handled(harness, vendor)
      await eventually(async () => expect(await refundedFeeOf(charge)).toBe(245))
      expect(await ledgerOf(harness, vendor)).toEqual(creditedAgain)
    },
  )

  test('a fee refund whose answer was lost is not repeated, and the credit remains', async () => {
    const { vendor, charge, interruption } = await givenInterrupted({ method: 'POST', when: 'after' })
    interruption.released.resolve('is cut')
    await untilDone(vendor)
    expect(interruption.begun).toBe(1)
    expect(await refundedFeeOf(charge)).toBe(245)
    expect(await ledgerOf(harness, vendor)).toEqual(credited)
  })
})
