import { connect } from '@licensing/database/connect'
import { DATABASE_SERVICES } from '@licensing/local-servers/services'
import { apiClient } from '@licensing/test-support/api-client'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { expect, test } from 'vitest'

const environment = { WEBHOOK_BACKOFF_SECONDS: '1', RATE_LIMIT_PER_MINUTE: '10000000' }
const replicas = { catalog: 2, licensing: 2, billing: 2, notifier: 2 }

/** The stack as another vendor of it sees it. */
async function asOtherVendor(stack: Stack): Promise<Stack> {
  const { stdout } = await runAdmin(stack, 'create-account', '--name', 'Other')
  const { app_id: appId, key } = JSON.parse(stdout) as Record<string, string>
  return { ...stack, appId: appId!, apiKey: key!, api: apiClient(stack.gatewayUrl, key!) }
}

test('the logs of all services get more partitions under load, replica by replica: no request fails, and nothing is lost', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment, replicas })
  const vendors = [stack, await asOtherVendor(stack), await asOtherVendor(stack)]
  const loads = await Promise.all(
    vendors.map(async (vendor, at) => {
      const own = { ...receiver, url: () => receiver.url(`/${at}`) }
      return { vendor, own, load: await startLoad(vendor, own, 2) }
    }),
  )
  const more = (count: number) => Promise.all(loads.map(({ load }) => load.more(count)))
  const numbersOf = async (service: (typeof DATABASE_SERVICES)[number]) => {
    const sql = connect(stack.databaseUrls[service], { name: 'test', max: 1 })
    const [row] = await sql<{ numbers: bigint[] }[]>`select numbers from event_log_state`
    await sql.end()
    return row!.numbers
  }
  await more(60)
  for (const service of DATABASE_SERVICES) {
    for (const process of stack.processes[service]) {
      await process.start({ EVENT_PARTITIONS: '64' })
      await more(20)
    }
  }
  for (const service of DATABASE_SERVICES) {
    await eventually(async () => expect(await numbersOf(service)).toHaveLength(64))
  }
  await more(60)
  for (const { vendor, own, load } of loads) {
    await load.stop()
    expect(load.failures).toEqual([])
    await expectNothingLost(vendor, own, load)
  }
  // An account stays in the first partitions with a probability of an eighth.
  for (let account = 0; account < 12; account += 1) await asOtherVendor(stack)
  await eventually(async () =>
    expect((await numbersOf('catalog')).slice(8).some((number) => number > 0n)).toBe(true),
  )
})
