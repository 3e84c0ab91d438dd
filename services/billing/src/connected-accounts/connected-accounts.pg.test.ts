import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { claimMerchant } from './reconciliation-queries.ts'
import { sharedHarness } from '../../test/harness.ts'
import { givenSold, handled, licenceOf, licencesOf, refundsOf } from '../../test/shop.ts'
import { entriesBy } from '../../test/subscribed.ts'
import type { Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()
const { deps } = harness
afterEach(() => {
  deps.processorClaim = 'direct'
})

const newAccount = () => `acct_${newId('acct').slice(-26)}`
const givenUnconnected = () => harness.givenVendor({ connect: false, price: null })
const connect = ({ accountId }: Pick<Vendor, 'accountId'>, connectedAccount: string) =>
  harness.billing.connectProcessor({ accountId, processor: 'stripe', connectedAccount })
const connectedTo = async ({ accountId }: Vendor) =>
  harness.billing.getProcessor({ accountId }).then(
    ({ connectedAccount }) => connectedAccount,
    (error: { code: string }) => error.code,
  )

/** The vendor withdraws the platform's access at the processor, and gives it again after billing has processed that. */
async function withdraw(vendor: Vendor, account: string): Promise<void> {
  await harness.simulator.control('deauthorize', { account })
  await handled(harness, { ...vendor, connectedAccount: account })
  expect(await connectedTo(vendor)).toBe('not_found')
  await harness.simulator.control('authorize', { account })
}

describe('connecting', () => {
  test('an account that the processor does not know, that is not connected to the platform, or whose id it refuses, is refused', async () => {
    const vendor = await givenUnconnected()
    const withdrawn = newAccount()
    await harness.simulator.control('deauthorize', { account: withdrawn })
    const refused = { code: 'validation_failed', errors: [{ pointer: '/connected_account' }] }
    for (const account of ['acct_missing1', withdrawn, `acct_${'a'.repeat(250)}`]) {
      await expect(connect(vendor, account)).rejects.toMatchObject(refused)
    }
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test.each(['500', '403', 'reset'])(
    'is unavailable while the processor answers %s, and connects nothing',
    async (answer) => {
      const vendor = await givenUnconnected()
      const account = newAccount()
      const path = `/v1/accounts/${account}`
      await harness.simulator.control('faults', { answer, until_cleared: true, path })
      await expect(connect(vendor, account)).rejects.toMatchObject({ code: 'unavailable' })
      await fetch(`${harness.simulator.url}/_sim/faults`, { method: 'DELETE' })
      expect(await connectedTo(vendor)).toBe('not_found')
    },
  )

  test('one account by many vendors at once succeeds for exactly one vendor', async () => {
    const vendors = await Promise.all(Array.from({ length: 12 }, givenUnconnected))
    const account = newAccount()
    const outcomes = await Promise.allSettled(vendors.map((vendor) => connect(vendor, account)))
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected')
    expect(refused).toHaveLength(11)
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'already_exists' })
    const holders = (await Promise.all(vendors.map(connectedTo))).filter((each) => each === account)
    expect(holders).toHaveLength(1)
  })

  test('two accounts that two vendors exchange at once leaves each with one vendor, and calls fail only with a conflict', async () => {
    const [one, other] = [
      await harness.givenVendor({ price: null }),
      await harness.givenVendor({ price: null }),
    ]
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
    const [seller, next] = [await harness.givenVendor({ price: null }), await givenUnconnected()]
    const { connectedAccount } = seller
    await expect(connect(next, connectedAccount)).rejects.toMatchObject({ code: 'already_exists' })
    await connect(seller, newAccount())
    await connect(next, connectedAccount)
    await expect(connect(seller, connectedAccount)).rejects.toMatchObject({ code: 'already_exists' })
  })

  test('many accounts in a row is limited, and connections without sales are deleted', async () => {
    const vendor = await harness.givenVendor({ price: null })
    const kept = () => harness.sql`select from processor_connections where account_id = ${vendor.accountId}`
    for (let made = 0; made < 20; made += 1) await connect(vendor, newAccount())
    await expect(connect(vendor, newAccount())).rejects.toMatchObject({ code: 'rate_limited' })
    expect(await kept()).toHaveLength(21)
    await harness.sql`
      update processor_connections set released_at = now() - interval '11 minutes'
      where account_id = ${vendor.accountId} and not current`
    await connect(vendor, newAccount())
    expect(await kept()).toHaveLength(2)
  })
})

describe('events after a release', () => {
  test('change the licences of the account that sold, and events of the new holder’s sales change its own licences', async () => {
    const seller = await harness.givenVendor()
    const { connectedAccount } = seller
    const sold = await givenSold(harness, seller)
    await withdraw(seller, connectedAccount)
    const next = { ...(await harness.givenVendor({ connect: false })), connectedAccount }
    await connect(next, connectedAccount)
    await givenSold(harness, next)
    await harness.simulator.control('refund', { charge: sold.charge })
    for (const vendor of [seller, next]) await handled(harness, vendor)
    expect(await licenceOf(harness, seller, sold.licenceId)).toMatchObject({ status: 'revoked' })
    expect(await refundsOf(harness, seller)).toHaveLength(1)
    expect(await refundsOf(harness, next)).toEqual([])
    expect(await licencesOf(harness, next)).toMatchObject([{ status: 'active' }])
  })

  test('are still compared with the processor’s list if something was sold, and otherwise are not', async () => {
    const [sold, unsold] = [await harness.givenVendor(), await harness.givenVendor({ price: null })]
    await givenSold(harness, sold)
    for (const [vendor, wanted] of [
      [sold, true],
      [unsold, false],
    ] as const) {
      await connect(vendor, newAccount())
      const merchant = `stripe:${vendor.connectedAccount}`
      await harness.sql`update reconciliations set next_at = '2000-01-01' where merchant = ${merchant}`
      expect(await claimMerchant(harness.sql, 60_000)).toMatchObject({ merchant, wanted })
    }
  })
})

const begin = ({ accountId }: Pick<Vendor, 'accountId'>) =>
  harness.billing.beginProcessorAuthorization({
    accountId,
    processor: 'stripe',
    returnUrl: 'http://127.0.0.1/back',
  })

/** Gives consent as a vendor's browser does, without the pages in between. */
async function consent(vendor: Pick<Vendor, 'accountId'>, account: string) {
  const page = new URL((await begin(vendor)).url)
  const answer = await fetch(new URL('/oauth/authorize', page), {
    method: 'POST',
    body: new URLSearchParams({ ...Object.fromEntries(page.searchParams), account, consent: 'given' }),
    redirect: 'manual',
  })
  const back = new URL(answer.headers.get('location') ?? '').searchParams
  return { state: back.get('state') ?? '', code: back.get('code') ?? '' }
}

const receive = (came: { state: string; code?: string }, browser = 'browser-1') =>
  harness.billing.receiveProcessorAuthorization({ processor: 'stripe', browser, ...came })
const confirm = (confirmation: string, browser = 'browser-1') =>
  harness.billing.confirmProcessorAuthorization({ processor: 'stripe', confirmation, browser })

describe('if accounts have to be proven', () => {
  beforeEach(() => {
    deps.processorClaim = 'authorize'
  })
  const badRequest = { code: 'bad_request' }
  async function givenProven(vendor: Vendor, connectedAccount: string) {
    const { confirmation } = await receive(await consent(vendor, connectedAccount))
    await confirm(confirmation)
  }
  const expire = ({ accountId }: Vendor) =>
    harness.sql`update processor_authorizations set expires_at = now() where account_id = ${accountId}`

  test('an account that was only named is a conflict', async () => {
    const vendor = await givenUnconnected()
    const notProven = { code: 'conflict', members: { current: 'not_proven' } }
    await expect(connect(vendor, newAccount())).rejects.toMatchObject(notProven)
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('consent alone connects nothing; the confirmation does, and PUT then accepts the account', async () => {
    const vendor = await givenUnconnected()
    const connectedAccount = newAccount()
    const received = await receive(await consent(vendor, connectedAccount))
    const { accountId } = vendor
    expect(received).toMatchObject({ accountId, accountName: 'Vendor', connectedAccount })
    expect(await connectedTo(vendor)).toBe('not_found')
    await confirm(received.confirmation)
    expect(await connectedTo(vendor)).toBe(connectedAccount)
    expect(await connect(vendor, connectedAccount)).toMatchObject({ connectedAccount })
    await expect(confirm(received.confirmation)).rejects.toMatchObject(badRequest)
    await withdraw(vendor, connectedAccount)
    await harness.events.caughtUp()
    const [proven, released] = [
      { processor: { from: null, to: 'stripe' }, connected_account: { from: null, to: connectedAccount } },
      { processor: { from: 'stripe', to: null }, connected_account: { from: connectedAccount, to: null } },
    ]
    expect(entriesBy('processor', harness, vendor)).toMatchObject([
      { operation: 'connectProcessor', resourceId: accountId, changes: proven },
      { operation: 'releaseProcessor', resourceId: accountId, changes: released },
    ])
  })

  test('a state works once, also if two browsers return with it at once', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    const outcomes = await Promise.allSettled(['a', 'b', 'c'].map((browser) => receive(came, browser)))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    await expect(receive(came)).rejects.toMatchObject(badRequest)
    const fresh = await consent(vendor, newAccount())
    await expect(receive({ ...came, code: fresh.code })).rejects.toMatchObject(badRequest)
  })

  test('a state that is expired, unknown or empty is refused, and uses up no code', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    await expire(vendor)
    for (const state of [came.state, 'made-up', '']) {
      await expect(receive({ state, code: came.code })).rejects.toMatchObject(badRequest)
    }
    const next = await consent(vendor, newAccount())
    expect(await receive({ state: next.state, code: came.code })).toHaveProperty('confirmation')
  })

  test('a state belongs to the account that began: any browser that returns with it connects that account, and sees its name', async () => {
    const [victim, attacker] = [await givenUnconnected(), await givenUnconnected()]
    const account = newAccount()
    harness.catalog.accounts.get(attacker.accountId)!.name = 'Thief & Sons'
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
      await expect(confirm(confirmation, browser)).rejects.toMatchObject(badRequest)
    }
    await expire(vendor)
    await expect(confirm(confirmation, 'the vendor’s')).rejects.toMatchObject(badRequest)
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('a code that was made up or used is refused, and so is a return without a code', async () => {
    const vendor = await givenUnconnected()
    const came = await consent(vendor, newAccount())
    await expect(receive({ ...came, code: 'ac_made_up' })).rejects.toMatchObject(badRequest)
    const { state } = await consent(vendor, newAccount())
    await expect(receive({ state })).rejects.toMatchObject(badRequest)
  })

  test('after an outage of the processor the state can be used again', async () => {
    const vendor = await givenUnconnected()
    const connectedAccount = newAccount()
    const came = await consent(vendor, connectedAccount)
    const { redeemConsent } = deps.processor
    deps.processor.redeemConsent = () =>
      Promise.reject(new ServiceError('unavailable', 'the processor is unavailable'))
    try {
      await expect(receive(came)).rejects.toMatchObject({ code: 'unavailable' })
    } finally {
      deps.processor.redeemConsent = redeemConsent
    }
    expect(await receive(came)).toMatchObject({ connectedAccount })
  })

  test('if two vendors prove one account, the first confirmation connects it, and the second works after a withdrawal', async () => {
    const vendors = [await givenUnconnected(), await givenUnconnected()]
    const account = newAccount()
    const received = await Promise.all(vendors.map(async (vendor) => receive(await consent(vendor, account))))
    const clicks = await Promise.allSettled(received.map(({ confirmation }) => confirm(confirmation)))
    expect(clicks.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const lost = clicks.findIndex(({ status }) => status === 'rejected')
    expect(clicks[lost]).toMatchObject({ reason: { code: 'already_exists' } })
    await withdraw(vendors[1 - lost]!, account)
    await confirm(received[lost]!.confirmation)
    expect(await connectedTo(vendors[lost]!)).toBe(account)
  })

  test('access that was withdrawn before the confirmation connects nothing', async () => {
    const vendor = await givenUnconnected()
    const account = newAccount()
    const { confirmation } = await receive(await consent(vendor, account))
    await harness.simulator.control('deauthorize', { account })
    await expect(confirm(confirmation)).rejects.toMatchObject(badRequest)
    expect(await connectedTo(vendor)).toBe('not_found')
  })

  test('an account that withdrew, or that another vendor has proven since, has to be proven again', async () => {
    deps.processorClaim = 'direct'
    const seller = await harness.givenVendor()
    const { connectedAccount } = seller
    await givenSold(harness, seller)
    deps.processorClaim = 'authorize'
    // This account was connected before accounts had to be proven, and counts as proven.
    await givenProven(seller, newAccount())
    await connect(seller, connectedAccount)
    await withdraw(seller, connectedAccount)
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
    for (let made = 0; made < 25; made += 1) await begin(vendor)
    const open = await harness.sql`
      select from processor_authorizations where account_id = ${vendor.accountId}`
    expect(open).toHaveLength(20)
  })
})
