import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad, type Load } from '@licensing/test-support/load'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TestProcess } from '@licensing/test-support/test-process'
import { expect, test } from 'vitest'
import { buildRelease, buildThisRelease, lastRelease } from './releases.ts'

const two = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }
const last = await lastRelease()
const images = Boolean(process.env['TEST_IMAGES'])

test('every replica is restarted in turn under load: no request fails, no event is lost or out of order', () =>
  replaceUnderLoad(undefined, (process) => process.start()))

test.skipIf(last === undefined)(
  `every replica is upgraded in turn from the last release (${last ?? 'none yet'}) under load, with both releases side by side`,
  async () => {
    await using folder = await makeTemporaryFolder()
    const old = await buildRelease(last!, folder, images)
    const now = await buildThisRelease(images)
    await replaceUnderLoad(old, (process) => process.start({}, now))
  },
  600_000,
)

async function replaceUnderLoad(
  release: string | undefined,
  replace: (process: TestProcess) => Promise<void>,
): Promise<void> {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({
    receiver,
    replicas: two,
    environment: { RATE_LIMIT_PER_MINUTE: '1000000' },
    ...(release !== undefined && { release }),
  })
  await using load = await startLoad(stack, receiver, 6)
  await inTurn(stack, load, replace)
  await load.stop()
  await expectNothingLost(stack, receiver, load)
}

/**
 * Replaces one replica at a time, and waits for some requests after each. A gateway is taken out of the load balancing before
 * it stops, like a pod on Kubernetes; a service stops without notice.
 */
async function inTurn(
  stack: Stack,
  load: Load,
  replace: (process: TestProcess) => Promise<void>,
): Promise<void> {
  await load.more(25)
  for (const component of ['catalog', 'licensing', 'billing', 'notifier', 'gateway'] as const) {
    for (const process of stack.processes[component]) {
      if (component === 'gateway') await load.without(process.operationsUrl, () => replace(process))
      else await replace(process)
      await load.more(25)
      expect(load.failures, `while ${process.name} was replaced`).toEqual([])
    }
  }
}
