import { expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { handled, licenceOf, paymentsOf } from '../../test/shop.ts'
import { act, givenSubscribed, monthly } from '../../test/subscribed.ts'

const harness = await sharedHarness()

test('an inquiry about an earlier invoice changes no licence, neither when it is opened nor when it is closed', async () => {
  const customer = await givenSubscribed(harness, await harness.givenVendor(monthly))
  const { vendor, licenceId, charge: earlier } = customer
  await act(harness, customer, 'renew')
  await handled(harness, vendor)
  const renewal = (await paymentsOf(harness, vendor)).find(({ chargeRef }) => chargeRef !== earlier)!
  const inquire = (charge: string) =>
    harness.simulator.control<{ id: string }>('dispute', { charge, kind: 'inquiry' })
  const close = async ({ id }: { id: string }) => {
    await harness.simulator.control('close-dispute', { dispute: id, outcome: 'warning_closed' })
    await handled(harness, vendor)
    return licenceOf(harness, vendor, licenceId)
  }
  const first = await inquire(earlier)
  const second = await inquire(renewal.chargeRef!)
  await handled(harness, vendor)
  expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'suspended' })
  expect(await close(first)).toMatchObject({ status: 'suspended', statusReason: 'dispute_inquiry' })
  expect(await close(second)).toMatchObject({ status: 'active' })
})
