import { eventually } from '@licensing/test-support/poll'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenSold, handled, ledgerOf } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

/** A point at which a request to the processor is interrupted. */
interface Step {
  method: 'GET' | 'POST'
  /** `before`: the request does not arrive. `after`: its answer does not return. */
  when: 'before' | 'after'
}

/** A proxy in front of the simulated Stripe that can hold requests about application fees. */
class BlockingProxy {
  url = ''
  step: Step | undefined
  /** How many requests to refund a fee were begun. */
  begun = 0
  target = ''
  #blocked: ((how: 'goes on' | 'is cut') => void)[] = []
  readonly #server = createServer((request, response) => {
    this.#pass(request, response).catch(() => response.destroy())
  })

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  get isBlocking(): boolean {
    return this.#blocked.length > 0
  }

  release(how: 'goes on' | 'is cut'): void {
    this.step = undefined
    for (const release of this.#blocked.splice(0)) release(how)
  }

  async #pass(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part as Buffer)
    const { method = 'GET', url = '' } = request
    if (url.startsWith('/v1/application_fees') && method === 'POST') this.begun += 1
    if (!(await this.#lets('before', method, url))) return void response.destroy()
    const headers = new Headers()
    for (const [name, value] of Object.entries(request.headers)) {
      if (!/^(host|connection|content-length|transfer-encoding)$/.test(name)) headers.set(name, String(value))
    }
    const body = method === 'GET' ? {} : { body: Buffer.concat(parts) }
    const answer = await fetch(`${this.target}${url}`, { method, headers, ...body })
    const text = Buffer.from(await answer.arrayBuffer())
    if (!(await this.#lets('after', method, url))) return void response.destroy()
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(text)
  }

  async #lets(when: Step['when'], method: string, url: string): Promise<boolean> {
    const { step } = this
    if (!url.startsWith('/v1/application_fees') || step?.method !== method || step.when !== when) return true
    return (await new Promise((resolve) => this.#blocked.push(resolve))) === 'goes on'
  }
}

const proxy = new BlockingProxy()
let harness: Harness
beforeAll(async () => {
  await proxy.listen()
  harness = await startHarness({
    apiBase: ({ url }) => {
      proxy.target = url
      return proxy.url
    },
  })
})
afterAll(async () => {
  await harness[Symbol.asyncDispose]()
  await proxy.close()
})
afterEach(() => proxy.release('goes on'))

const refundedFeeOf = async (charge: string): Promise<number | undefined> => {
  const answer = await fetch(`${harness.simulator.url}/v1/application_fees?charge=${charge}`, {
    headers: { authorization: 'Bearer sk_test_simulated' },
  })
  const { data } = (await answer.json()) as { data: { amount_refunded: number }[] }
  return data[0]?.amount_refunded
}

const ofVendor = (vendor: Vendor) => harness.sql`
  payment_id in (select id from payments where account_id = ${vendor.accountId})`

/** Ends the leases and pauses of the vendor's fee refunds. */
const makeDue = (vendor: Vendor) =>
  harness.sql`update fee_refunds set next_at = now() where done_at is null and ${ofVendor(vendor)}`

const sumOf = (ledger: string[]) => ledger.reduce((sum, entry) => sum + Number(entry.split(' ')[1]), 0)

describe('a refund that succeeds, whose fee refund is interrupted, and that then fails', () => {
  const steps: [string, Step, 'goes on' | 'is cut', { given: boolean }][] = [
    ['the query of the fee does not arrive', { method: 'GET', when: 'before' }, 'is cut', { given: false }],
    ['the query of the fee arrives late', { method: 'GET', when: 'before' }, 'goes on', { given: false }],
    ['the answer to the query is lost', { method: 'GET', when: 'after' }, 'is cut', { given: false }],
    ['the answer to the query arrives late', { method: 'GET', when: 'after' }, 'goes on', { given: false }],
    ['the fee refund does not arrive', { method: 'POST', when: 'before' }, 'is cut', { given: false }],
    ['the fee refund arrives late', { method: 'POST', when: 'before' }, 'goes on', { given: true }],
    ['the answer to the fee refund is lost', { method: 'POST', when: 'after' }, 'is cut', { given: true }],
    [
      'the answer to the fee refund arrives late',
      { method: 'POST', when: 'after' },
      'goes on',
      { given: true },
    ],
  ]
  test.each(steps)('%s: %o %s: processor and ledger agree', async (_, step, how, { given }) => {
    const vendor = await harness.givenVendor()
    const { charge } = await givenSold(harness, vendor)
    proxy.step = step
    const refund = await harness.simulator.control<{ id: string }>('refund', { charge })
    await eventually(() => expect(proxy.isBlocking).toBe(true))
    expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
    await harness.simulator.control('refund-status', { refund: refund.id, status: 'failed' })
    const reversed = ['charge 245', 'credit -245', 'reversal 245']
    await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(reversed))
    const { begun } = proxy
    proxy.release(how)
    await makeDue(vendor)
    const expected = given ? [...reversed, 'credit -245'] : reversed
    await eventually(async () => expect(await ledgerOf(harness, vendor)).toEqual(expected))
    // Then the time passes in which a request may still take effect.
    await makeDue(vendor)
    await eventually(async () => expect(await attemptsSince(vendor)).toBe(true))
    await harness.sql`
      update fee_refunds set canceled_at = canceled_at - interval '2 hours' where ${ofVendor(vendor)}`
    await eventually(async () => {
      await makeDue(vendor)
      expect(await openOf(vendor)).toBe(0)
    })
    expect(proxy.begun).toBe(begun)
    expect(await ledgerOf(harness, vendor)).toEqual(expected)
    expect(await refundedFeeOf(charge)).toBe(245 - sumOf(expected))
    // After another refund there is one credit, whether or not it was posted before.
    await harness.simulator.control('refund', { charge })
    await handled(harness)
    await eventually(async () => expect(await refundedFeeOf(charge)).toBe(245))
    expect(await ledgerOf(harness, vendor)).toEqual([...reversed, 'credit -245'])
  })
})

async function openOf(vendor: Vendor): Promise<number> {
  const [row] = await harness.sql<{ open: number }[]>`
    select count(*)::int as open from fee_refunds where done_at is null and ${ofVendor(vendor)}`
  return row!.open
}

/** Whether no fee refund of the vendor is due, so that all due ones have been tried. */
async function attemptsSince(vendor: Vendor): Promise<boolean> {
  const [row] = await harness.sql<{ due: number }[]>`
    select count(*)::int as due from fee_refunds
    where done_at is null and next_at <= now() and ${ofVendor(vendor)}`
  return row!.due === 0
}

test('a fee refund whose answer was lost is not repeated, and the credit remains', async () => {
  const vendor = await harness.givenVendor()
  const { charge } = await givenSold(harness, vendor)
  proxy.step = { method: 'POST', when: 'after' }
  await harness.simulator.control('refund', { charge })
  await eventually(() => expect(proxy.isBlocking).toBe(true))
  const { begun } = proxy
  proxy.release('is cut')
  await eventually(async () => {
    await makeDue(vendor)
    expect(await openOf(vendor)).toBe(0)
  })
  expect(proxy.begun).toBe(begun)
  expect(await refundedFeeOf(charge)).toBe(245)
  expect(await ledgerOf(harness, vendor)).toEqual(['charge 245', 'credit -245'])
})
