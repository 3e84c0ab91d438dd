import { relative } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { BaseSequencer } from 'vitest/node'
import type { TestSpecification } from 'vitest/node'

/**
 * Durations of the slowest test files that share no stack, in seconds. Each of them gets its own worker, so list only the
 * slowest. `npm test` prints the ten slowest files.
 */
export const longFiles: Readonly<Record<string, number>> = {
  'tests/acceptance/src/start.test.ts': 80,
  'tests/acceptance/src/sdk.test.ts': 60,
  'tests/resilience/src/catalog-unreachable.test.ts': 25,
}

/** Starts the longest files first. If one started last, the other workers would be idle until its end. */
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
