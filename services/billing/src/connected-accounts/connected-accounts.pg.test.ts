import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { claimMerchant } from '../inbox/reconciliation-queries.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenSold, handled, licenceOf, licencesOf, refundsOf } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'

let shop: Harness
beforeAll(async () => {
  shop = await startHarness()
})
afterAll(() => shop[Symbol.asyncDispose]())
beforeEach(() => {
  shop.deps.processorClaim = 'direct'
})

const newAccount = () => `acct_${newId('acct').slice(-26)}`
const connect = ({ accountId }: Pick<Vendor, 'accountId'>, connectedAccount: string) =>
  shop.billing.connectProcessor({ accountId, processor: 'stripe', connectedAccount })
const connectedTo = async ({ accountId }: Vendor) =>
  shop.billing.getProcessor({ accountId }).then(
    ({ connectedAccount }) => connectedAccount,
    (error: { code: string }) => error.code,
  )
const clearFaults = () => fetch(`${shop.simulator.url}/_sim/faults`, { method: 'DELETE' })

/** The vendor withdraws the platform's access at the processor, and billing processes the event. */
async function withdraw(vendor: Vendor, connectedAccount: string): Promise<void> {
  await shop.simulator.control('deauthorize', { account: connectedAccount })
  await eventually(async () => expect(await connectedTo(vendor)).toBe('not_found'))
}

describe('connecting', () => {
  test('an account that the processor does not know, or that is not connected to the platform, is refused', async () => {
    const vendor = await shop.givenVendor({ connect: false })
    const withdrawn = newAccount()
    await shop.simulator.control('deauthorize', { account: withdrawn })
    for (const account of ['acct_missing1', withdrawn]) {
      await expect(connect(vendor, account)).rejects.toMatchObject({
        code: 'validation_failed',
        errors: [{ pointer: '/connected_account' }],
      })
    }
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('is refused, and not reported as unavailable, if the processor refuses the account’s id', async () => {
    const vendor = await shop.givenVendor({ connect: false })
    await expect(connect(vendor, `acct_${'a'.repeat(250)}`)).rejects.toMatchObject({
      code: 'validation_failed',
      errors: [{ pointer: '/connected_account' }],
    })
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test.each(['500', '403', 'reset'])(
    'is unavailable while the processor answers %s, and connects nothing',
    async (answer) => {
      const vendor = await shop.givenVendor({ connect: false })
      const account = newAccount()
      await shop.simulator.control('faults', { answer, until_cleared: true, path: `/v1/accounts/${account}` })
      try {
        await expect(connect(vendor, account)).rejects.toMatchObject({ code: 'unavailable' })
      } finally {
        await clearFaults()
      }
      expect(await connectedTo(vendor)).toBe('not_found')
    },
  )

  test('one account by many vendors at once succeeds for exactly one vendor', async () => {
    const vendors = await Promise.all(
      Array.from({ length: 12 }, () => shop.givenVendor({ connect: false, price: null })),
    )
    const account = newAccount()
    const outcomes = await Promise.allSettled(vendors.map((vendor) => connect(vendor, account)))
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(refused).toHaveLength(11)
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'already_exists' })
    const holders = (await Promise.all(vendors.map(connectedTo))).filter((each) => each === account)
    expect(holders).toHaveLength(1)
  })

  test('two accounts that two vendors exchange at once leaves each with one vendor, and calls fail only with a conflict', async () => {
    const [one, other] = [await shop.givenVendor({ price: null }), await shop.givenVendor({ price: null })]
    const [first, second] = [one.connectedAccount, other.connectedAccount]
    for (let round = 0; round < 6; round += 1) {
      const outcomes = await Promise.allSettled([
        connect(one, round % 2 ? first : second),
        connect(other, round % 2 ? second : first),
        connect(one, newAccount()),
      ])
      for (const outcome of outcomes) {
        if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject({ code: 'already_exists' })
      }
    }
    expect(await connectedTo(one)).not.toBe(await connectedTo(other))
  })

  test('another account releases the earlier one, which another vendor can then connect', async () => {
    const [seller, next] = [
      await shop.givenVendor({ price: null }),
      await shop.givenVendor({ connect: false, price: null }),
    ]
    const { connectedAccount } = seller
    await expect(connect(next, connectedAccount)).rejects.toMatchObject({ code: 'already_exists' })
    await connect(seller, newAccount())
    await connect(next, connectedAccount)
    await expect(connect(seller, connectedAccount)).rejects.toMatchObject({ code: 'already_exists' })
  })

  test('many accounts in a row is limited, and connections without sales are deleted', async () => {
    const vendor = await shop.givenVendor({ price: null })
    const kept = async () => {
      const [row] = await shop.sql<{ kept: number }[]>`
        select count(*)::integer as kept from processor_connections where account_id = ${vendor.accountId}`
      return row!.kept
    }
    for (let made = 0; made < 20; made += 1) await connect(vendor, newAccount())
    await expect(connect(vendor, newAccount())).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await kept()).toBe(21)
    await shop.sql`
      update processor_connections set released_at = now() - interval '11 minutes'
      where account_id = ${vendor.accountId} and not current`
    await connect(vendor, newAccount())
    expect(await kept()).toBe(2)
  })
})

describe('events after a release', () => {
  test('change the licences of the account that sold, and events of the new holder’s sales change its own licences', async () => {
    const seller = await shop.givenVendor()
    const { connectedAccount } = seller
    const sold = await givenSold(shop, seller)
    await withdraw(seller, connectedAccount)
    await shop.simulator.control('authorize', { account: connectedAccount })
    const next = await shop.givenVendor({ connect: false })
    await connect(next, connectedAccount)
    await givenSold(shop, next)
    await shop.simulator.control('refund', { charge: sold.charge })
    await handled(shop)
    expect(await licenceOf(shop, seller, sold.licenceId)).toMatchObject({ status: 'revoked' })
    expect(await refundsOf(shop, seller)).toHaveLength(1)
    expect(await refundsOf(shop, next)).toEqual([])
    expect(await licencesOf(shop, next)).toMatchObject([{ status: 'active' }])
  })

  test('are still compared with the processor’s list if something was sold, and otherwise are not', async () => {
    const [sold, unsold] = [await shop.givenVendor(), await shop.givenVendor({ price: null })]
    await givenSold(shop, sold)
    for (const vendor of [sold, unsold]) await connect(vendor, newAccount())
    const wanted = async ({ connectedAccount }: Vendor) => {
      const merchant = `stripe:${connectedAccount}`
      await shop.sql`update reconciliations set next_at = '2000-01-01' where merchant = ${merchant}`
      const claimed = await claimMerchant(shop.sql, 60_000)
      expect(claimed?.merchant).toBe(merchant)
      return claimed?.wanted
    }
    expect(await wanted(sold)).toBe(true)
    expect(await wanted(unsold)).toBe(false)
  })
})

/** Gives consent as a vendor's browser does, without the pages in between. */
async function consent(vendor: Pick<Vendor, 'accountId'>, connectedAccount: string) {
  const begun = await shop.billing.beginProcessorAuthorization({
    accountId: vendor.accountId,
    processor: 'stripe',
    returnUrl: 'http://127.0.0.1/back',
  })
  return consentAt(begun.url, connectedAccount)
}

async function consentAt(url: string, connectedAccount: string) {
  const page = new URL(url)
  const answer = await fetch(new URL('/oauth/authorize', page), {
    method: 'POST',
    body: new URLSearchParams({
      ...Object.fromEntries(page.searchParams),
      account: connectedAccount,
      consent: 'given',
    }),
    redirect: 'manual',
  })
  const back = new URL(answer.headers.get('location') ?? '').searchParams
  return { state: back.get('state') ?? '', code: back.get('code') ?? '' }
}

const receive = (came: { state: string; code?: string }, browser = 'browser-1') =>
  shop.billing.receiveProcessorAuthorization({ processor: 'stripe', browser, ...came })
const confirm = (confirmation: string, browser = 'browser-1') =>
  shop.billing.confirmProcessorAuthorization({ processor: 'stripe', confirmation, browser })

describe('if accounts have to be proven', () => {
  beforeEach(() => {
    shop.deps.processorClaim = 'authorize'
  })
  const givenUnconnected = () => shop.givenVendor({ connect: false, price: null })
  async function givenProven(vendor: Vendor, connectedAccount: string) {
    const { confirmation } = await receive(await consent(vendor, connectedAccount))
    await confirm(confirmation)
  }

  test('an account that was only named is a conflict', async () => {
    const vendor = await givenUnconnected()
    await expect(connect(vendor, newAccount())).rejects.toMatchObject({
      code: 'conflict',
      members: { current: 'not_proven' },
    })
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('consent alone connects nothing; the confirmation does, and PUT then accepts the account', async () => {
    const vendor = await givenUnconnected()
    const account = newAccount()
    const received = await receive(await consent(vendor, account))
    expect(received).toMatchObject({
      accountId: vendor.accountId,
      accountName: 'Vendor',
      connectedAccount: account,
    })
    expect(await connectedTo(vendor)).toBe('not_found')
    await confirm(received.confirmation)
    expect(await connectedTo(vendor)).toBe(account)
    expect(await connect(vendor, account)).toMatchObject({ connectedAccount: account })
    await expect(confirm(received.confirmation)).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('a state works once, also if two browsers return with it at once', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((browser) => receive(came, browser)))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await expect(receive(came)).rejects.toMatchObject({ code: 'bad_request' })
    const fresh = await consent(vendor, newAccount())
    await expect(receive({ ...came, code: fresh.code })).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('a state that is expired, unknown or empty is refused, and uses up no code', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    await shop.sql`
      update processor_authorizations set expires_at = now() where account_id = ${vendor.accountId}`
    for (const state of [came.state, 'made-up', '']) {
      await expect(receive({ state, code: came.code })).rejects.toMatchObject({ code: 'bad_request' })
    }
    const next = await consent(vendor, newAccount())
    expect(await receive({ state: next.state, code: came.code })).toHaveProperty('confirmation')
  })

  test('a state belongs to the account that began: any browser that returns with it connects that account, and sees its name', async () => {
    const [victim, attacker] = [await givenUnconnected(), await givenUnconnected()]
    const account = newAccount()
    shop.catalog.accounts.get(attacker.accountId)!.name = 'Thief & Sons'
    const received = await receive(await consent(attacker, account))
    expect(received).toMatchObject({ accountId: attacker.accountId, accountName: 'Thief & Sons' })
    await confirm(received.confirmation)
    expect(await connectedTo(victim)).toBe('not_found')
    await expect(connect(victim, account)).rejects.toMatchObject({ code: 'conflict' })
  })

  test('a consent cannot be confirmed in another browser, or after 15 minutes', async () => {
    const vendor = await givenUnconnected()
    const { confirmation } = await receive(await consent(vendor, newAccount()), 'the vendor’s')
    for (const browser of ['another', '']) {
      await expect(confirm(confirmation, browser)).rejects.toMatchObject({ code: 'bad_request' })
    }
    await shop.sql`
      update processor_authorizations set expires_at = now() where account_id = ${vendor.accountId}`
    await expect(confirm(confirmation, 'the vendor’s')).rejects.toMatchObject({ code: 'bad_request' })
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('a code that was made up or used is refused, and so is a return without a code', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    await expect(receive({ ...came, code: 'ac_made_up' })).rejects.toMatchObject({ code: 'bad_request' })
    const { state } = await consent(vendor, newAccount())
    await expect(receive({ state })).rejects.toMatchObject({ code: 'bad_request' })
  })

  test('after an outage of the processor the state can be used again', async () => {
    const vendor = await givenUnconnected()
    const account = newAccount()
    const came = await consent(vendor, account)
    const { redeemConsent } = shop.deps.processor
    shop.deps.processor.redeemConsent = () =>
      Promise.reject(new ServiceError('unavailable', 'the processor is unavailable'))
    try {
      await expect(receive(came)).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      shop.deps.processor.redeemConsent = redeemConsent
    }
    expect(await receive(came)).toMatchObject({ connectedAccount: account })
  })

  test('if two vendors prove one account, the first confirmation connects it, and the second works after a withdrawal', async () => {
    const [one, other] = [await givenUnconnected(), await givenUnconnected()]
    const account = newAccount()
    const received = await Promise.all(
      [one, other].map(async (vendor) => receive(await consent(vendor, account))),
    )
    const clicks = await Promise.allSettled(received.map(({ confirmation }) => confirm(confirmation)))
    expect(clicks.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const lost = clicks.findIndex(({ status }) => status === 'rejected')
    expect(clicks[lost]).toMatchObject({ reason: { code: 'already_exists' } })
    await withdraw([one, other][1 - lost]!, account)
    await shop.simulator.control('authorize', { account })
    await confirm(received[lost]!.confirmation)
    expect(await connectedTo([one, other][lost]!)).toBe(account)
  })

  test('access that was withdrawn before the confirmation connects nothing', async () => {
    const vendor = await givenUnconnected()
    const account = newAccount()
    const { confirmation } = await receive(await consent(vendor, account))
    await shop.simulator.control('deauthorize', { account })
    await expect(confirm(confirmation)).rejects.toMatchObject({ code: 'bad_request' })
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('an account that withdrew, or that another vendor has proven since, has to be proven again', async () => {
    shop.deps.processorClaim = 'direct'
    const seller = await shop.givenVendor()
    const { connectedAccount } = seller
    await givenSold(shop, seller)
    shop.deps.processorClaim = 'authorize'
    // This account was connected before accounts had to be proven, and counts as proven.
    await givenProven(seller, newAccount())
    await connect(seller, connectedAccount)
    await withdraw(seller, connectedAccount)
    await shop.simulator.control('authorize', { account: connectedAccount })
    await expect(connect(seller, connectedAccount)).rejects.toMatchObject({ code: 'conflict' })
    await givenProven(seller, connectedAccount)
    await givenProven(seller, newAccount())
    const next = await givenUnconnected()
    await givenProven(next, connectedAccount)
    await givenProven(next, newAccount())
    await expect(connect(seller, connectedAccount)).rejects.toMatchObject({ code: 'conflict' })
  })

  test('an account has at most 20 open authorizations', async () => {
    const vendor = await givenUnconnected()
    const begin = () =>
      shop.billing.beginProcessorAuthorization({
        accountId: vendor.accountId,
        processor: 'stripe',
        returnUrl: 'http://127.0.0.1/back',
      })
    for (let made = 0; made < 25; made += 1) await begin()
    const [row] = await shop.sql<{ open: number }[]>`
      select count(*)::integer as open from processor_authorizations where account_id = ${vendor.accountId}`
    expect(row!.open).toBe(20)
  })
})
