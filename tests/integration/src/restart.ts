import type { TestProcess } from '@licensing/test-support/test-process'
import type { Stack } from '@licensing/test-support/stack-shape'
import type { Load } from './load.ts'

const order = ['catalog', 'licensing', 'billing', 'notifier', 'gateway'] as const

/**
 * Goes through every replica of every component, one at a time, with some requests answered between two. A gateway is
 * taken out of rotation before it is stopped, as Kubernetes does with a pod; services are just stopped.
 */
export async function restartOneAtATime(
  stack: Stack,
  load: Load,
  restart: (process: TestProcess) => Promise<void>,
): Promise<void> {
  for (const component of order) {
    for (const process of stack.processes[component]) {
      if (load.failures.length > 0) return
      await load.more(25)
      if (component === 'gateway') await load.without(process.operationsUrl, () => restart(process))
      else await restart(process)
      await load.more(25)
      // Says after which of them something broke.
      if (load.failures.length > 0) load.failures.unshift(`while ${process.name} was restarted:`)
    }
  }
}
