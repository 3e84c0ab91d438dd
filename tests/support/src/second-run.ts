import { relative } from 'node:path'
import { TestsNotFoundError } from 'vitest/node'
import type { TestModule, Vitest } from 'vitest/node'

/** What a run came to. A file that does not load and an error outside any test each count as one that failed. */
export interface Outcome {
  passed: number
  failed: number
  /** Tests that failed at first and passed when their file ran alone: `file > test`. */
  flaky: string[]
}

/** More files than these that fail are no accident of a busy machine. */
const mostFiles = 5

/**
 * Runs tests, and the files that failed, if they are few, once more, one at a time. A file that fails twice has failed; of
 * one that passes then, the tests that had failed are named as flaky.
 */
export async function runTests(vitest: Vitest, filter: string[]): Promise<Outcome> {
  await vitest.start(filter).catch((error: unknown) => {
    // The reporter has said so.
    if (!(error instanceof TestsNotFoundError)) throw error
  })
  const errors = vitest.state.getUnhandledErrors().length
  const failed = vitest.state.getTestModules().filter((module) => !module.ok())
  if (errors > 0 || failed.length > mostFiles) return { ...count(vitest), flaky: [] }
  const flaky: string[] = []
  for (const module of failed) {
    const names = namesOfFailed(module)
    process.stdout.write(`\nonce more, alone: ${relative(vitest.config.root, module.moduleId)}\n`)
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications([
      module.toTestSpecification(),
    ])
    if (unhandledErrors.length > 0) return { ...count(vitest), flaky }
    const again = testModules.find(({ id }) => id === module.id)
    if (again?.ok() && [...again.children.allTests('passed')].length > 0) flaky.push(...names)
  }
  return { ...count(vitest), flaky }
}

function namesOfFailed(module: TestModule): string[] {
  const file = relative(module.project.vitest.config.root, module.moduleId)
  const tests = [...module.children.allTests()].filter((test) => test.result().state === 'failed')
  const broken = brokenSuites(module) > 0 ? [file] : []
  return [...broken, ...tests.map((test) => `${file} > ${test.fullName}`)]
}

function brokenSuites(module: TestModule): number {
  const suites = [...module.children.allSuites()].flatMap((suite) => suite.errors())
  return module.errors().length + suites.length
}

function count({ state }: Vitest): { passed: number; failed: number } {
  const modules = state.getTestModules()
  const results = modules.flatMap((module) =>
    [...module.children.allTests()].map((test) => test.result().state),
  )
  const broken = modules.map(brokenSuites).reduce((sum, number) => sum + number, 0)
  return {
    passed: results.filter((state) => state === 'passed').length,
    failed: results.filter((state) => state === 'failed').length + broken + state.getUnhandledErrors().length,
  }
}
