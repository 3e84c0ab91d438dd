import { relative } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { BaseSequencer } from 'vitest/node'
import type { TestSpecification } from 'vitest/node'

/** What a run of all tests awaits longest outside of tests/: seconds on two cores. */
export const longFiles: Readonly<Record<string, number>> = {
  'services/notifier/src/dispatch/crash.pg.test.ts': 108,
  'services/billing/src/outages.pg.test.ts': 74,
  'packages/events/src/lying-connections.pg.test.ts': 62,
  'services/licensing/src/licences/lifecycle.pg.test.ts': 54,
  'services/billing/src/fulfilment/orders.pg.test.ts': 37,
  'services/billing/src/sale-events/sale-events.pg.test.ts': 35,
  'services/notifier/src/dispatch/isolation.pg.test.ts': 35,
  'sdk/test/webhook-recipes.test.ts': 33,
  'services/notifier/src/endpoints/recover-crash.pg.test.ts': 33,
  'services/catalog/src/plans/races.pg.test.ts': 31,
  'packages/events/src/consumer.pg.test.ts': 30,
}

const wholeStackSeconds = 1_000

/**
 * Starts with the suites that run the whole stack, then with the longest of the others: one of them started last would be
 * awaited with the other workers idle.
 */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => secondsOf(other) - secondsOf(one))
  }
}

function secondsOf({ project, moduleId }: TestSpecification): number {
  return project.name.startsWith('tests-')
    ? wholeStackSeconds
    : (longFiles[relative(CHECKOUT, moduleId)] ?? 0)
}
