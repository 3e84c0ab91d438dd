import { relative } from 'node:path'
import type { Vitest } from 'vitest/node'

/** The result of a run. A file that does not load and an error outside of tests count as one failure each. */
export function count({ state }: Vitest): { passed: number; failed: number } {
  const modules = state.getTestModules()
  const results = modules.flatMap((module) =>
    [...module.children.allTests()].map((test) => test.result().state),
  )
  const suites = modules.flatMap((module) => [...module.children.allSuites()])
  const broken = [...modules, ...suites].flatMap((each) => each.errors())
  return {
    passed: results.filter((state) => state === 'passed').length,
    failed:
      results.filter((state) => state === 'failed').length +
      broken.length +
      state.getUnhandledErrors().length,
  }
}

/** The ten slowest files, as lines to print. */
export function slowestFiles({ state, config }: Vitest): string[] {
  return state
    .getTestModules()
    .map((module) => {
      const { setupDuration, collectDuration, duration } = module.diagnostic()
      const seconds = (setupDuration + collectDuration + duration) / 1_000
      return { file: relative(config.root, module.moduleId), seconds }
    })
    .toSorted((one, other) => other.seconds - one.seconds)
    .slice(0, 10)
    .map(({ file, seconds }) => `${seconds.toFixed(1).padStart(6)} s  ${file}`)
}
