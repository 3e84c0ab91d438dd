import { keyed } from '@licensing/changes/testing/keyed'
import { expect, test } from 'vitest'
import { sharedHarness } from '../test/harness.ts'
import { checkoutRefOf, licencesOf, openCheckout, recordSale } from '../test/shop.ts'

const harness = await sharedHarness()

async function atOnce<T>(call: () => Promise<{ value: T; replayed: boolean }>): Promise<T[]> {
  const answers = await Promise.all(Array.from({ length: 20 }, call))
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  return answers.map(({ value }) => value)
}

test('20 concurrent calls with one key open one checkout, at one address', async () => {
  const vendor = await harness.givenVendor()
  const open = (body = '') =>
    keyed(`checkouts ${vendor.accountId}`, () => openCheckout(harness, vendor), { body })
  const sessions = await atOnce(() => open())
  expect(new Set(sessions.map(({ id, url }) => `${id} ${url}`)).size).toBe(1)
  await expect(open('another')).rejects.toMatchObject({ code: 'idempotency_mismatch' })
})

test('a checkout whose call ended before the processor had answered is opened by a repetition, once', async () => {
  const vendor = await harness.givenVendor()
  const open = () => keyed(`ended ${vendor.accountId}`, () => openCheckout(harness, vendor))
  const { value: first } = await open()
  await harness.sql`update checkout_sessions set checkout_ref = null, url = '' where id = ${first.id}`
  await harness.sql`update idempotency_keys set is_finished = false where account_id = ${vendor.accountId}`
  const again = await open()
  expect(again).toMatchObject({ replayed: true, value: { id: first.id } })
  expect(checkoutRefOf(again.value)).toBe(checkoutRefOf(first))
})

test('a checkout that is refused stores no idempotency key', async () => {
  const vendor = await harness.givenVendor({ price: null })
  const open = (body: string) =>
    keyed(`refused ${vendor.accountId}`, () => openCheckout(harness, vendor), { body })
  await expect(open('first')).rejects.toMatchObject({ code: 'validation_failed' })
  await expect(open('second')).rejects.toMatchObject({ code: 'validation_failed' })
})

test('20 concurrent reports of a sale with one key get the same answer, and make one licence', async () => {
  const vendor = await harness.givenVendor({ price: null })
  const report = () => keyed(`sales ${vendor.accountId}`, () => recordSale(harness, vendor))
  const answers = await atOnce(report)
  expect(new Set(answers.map(({ created, saleEvent }) => `${created} ${saleEvent!.licenceId}`)).size).toBe(1)
  expect(answers[0]).toMatchObject({ created: true, saleEvent: { status: 'provisioned' } })
  expect(await licencesOf(harness, vendor)).toHaveLength(1)
})
