import { relative } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { BaseSequencer } from 'vitest/node'
import type { TestSpecification } from 'vitest/node'

/** Seconds of the files that take longest, on two idle cores. `npm test` prints the ten slowest. */
export const longFiles: Readonly<Record<string, number>> = {
  'services/notifier/src/dispatch/crash.pg.test.ts': 108,
  'tests/acceptance/src/start.test.ts': 80,
  'services/billing/src/outages.pg.test.ts': 74,
  'tests/resilience/src/servers-down.test.ts': 70,
  'packages/events/src/lying-connections.pg.test.ts': 62,
  'packages/events/src/log-faults.pg.test.ts': 60,
  'services/licensing/test/lifecycle.pg.test.ts': 54,
  'services/billing/src/purchases/orders.pg.test.ts': 37,
  'tests/integration/src/replaced-replicas.test.ts': 50,
  'tests/acceptance/src/sdk.test.ts': 50,
  'tests/acceptance/src/long-revocations.test.ts': 50,
  'tests/resilience/src/catalog-unreachable.test.ts': 50,
  'tests/resilience/src/start-without-database.test.ts': 45,
  'packages/database/src/garbage.pg.test.ts': 40,
  'packages/events/src/relay.pg.test.ts': 40,
  'tests/acceptance/src/fuzz/fuzz.test.ts': 35,
  'services/billing/src/sale-events/sale-events.pg.test.ts': 35,
  'services/notifier/src/dispatch/isolation.pg.test.ts': 35,
  'sdk/test/webhook-recipes.test.ts': 33,
  'services/notifier/src/endpoints/recover-crash.pg.test.ts': 33,
  'services/catalog/src/plans/races.pg.test.ts': 31,
  'packages/events/src/consumer.pg.test.ts': 30,
  'sdk/test/processes.test.ts': 25,
}

/** Starts with the longest files: if one of them started last, the run would wait for it with idle workers. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    return sorted.toSorted((one, other) => secondsOf(other) - secondsOf(one))
  }
}

function secondsOf({ project, moduleId }: TestSpecification): number {
  // Other tests of a whole stack take about ten seconds.
  return longFiles[relative(CHECKOUT, moduleId)] ?? (project.name.startsWith('tests-') ? 10 : 0)
}
