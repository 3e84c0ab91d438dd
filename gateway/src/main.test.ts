import { freeAddress } from '@licensing/test-support/free-address'
import { eventually } from '@licensing/test-support/poll'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect, test } from 'vitest'

test('with [::] in its addresses, the gateway is reached over IPv4 and IPv6', async () => {
  await using folder = await makeTemporaryFolder()
  const nobody = await freeAddress()
  const addresses = { HTTP_ADDRESS: await freeAddress('[::]'), METRICS_ADDRESS: await freeAddress('[::]') }
  await using _gateway = await startService(
    'gateway',
    {
      ...addresses,
      CATALOG_ADDRESS: nobody,
      LICENSING_ADDRESS: nobody,
      BILLING_ADDRESS: nobody,
      NOTIFIER_ADDRESS: nobody,
    },
    folder.path,
    { waitMs: 0 },
  )
  for (const address of Object.values(addresses)) {
    for (const host of ['127.0.0.1', '[::1]']) {
      const response = await eventually(() => fetch(`http://${address.replace('[::]', host)}/healthz`))
      expect(response.status, `${host} of ${address}`).toBe(200)
    }
  }
})
