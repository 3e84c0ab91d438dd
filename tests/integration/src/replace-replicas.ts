import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad, type Load } from '@licensing/test-support/load'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import type { TestProcess } from '@licensing/test-support/test-process'
import { expect } from 'vitest'

const two = { catalog: 2, licensing: 2, billing: 2, notifier: 2, gateway: 2 }

type Replace = (process: TestProcess) => Promise<void>

/** Starts two replicas of each component at a release, runs `work` under load, and expects that no request fails and nothing is lost. */
export async function underLoad(
  release: string | undefined,
  work: (stack: Stack, replaceAll: (replace: Replace) => Promise<void>) => Promise<void>,
): Promise<void> {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({
    receiver,
    replicas: two,
    environment: { RATE_LIMIT_PER_MINUTE: '1000000' },
    ...(release !== undefined && { release }),
  })
  await using load = await startLoad(stack, receiver, 6)
  await work(stack, (replace) => inTurn(stack, load, replace))
  await load.stop()
  expect(load.failures).toEqual([])
  await expectNothingLost(stack, receiver, load)
}

/**
 * Replaces one replica at a time, and waits for some requests after each. A gateway is taken out of the load balancing before
 * it stops, like a pod on Kubernetes; a service stops without notice.
 */
async function inTurn(stack: Stack, load: Load, replace: Replace): Promise<void> {
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
