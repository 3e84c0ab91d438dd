import { relative } from 'node:path'
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
 * The outcome of a finished run after its failed files, if they are few, ran once more, one at a time. A test that fails
 * twice has failed; one that passes then is named as flaky.
 */
export async function runFailedAgain(vitest: Vitest): Promise<Outcome> {
  const errors = vitest.state.getUnhandledErrors().length
  const failedFiles = vitest.state.getTestModules().filter((module) => !module.ok())
  const failedTests = failedFiles.flatMap(namesOfFailed)
  if (errors > 0 || failedFiles.length > mostFiles) return { ...count(vitest), flaky: [] }
  for (const module of failedFiles) {
    process.stdout.write(`\nonce more, alone: ${relative(vitest.config.root, module.moduleId)}\n`)
    await vitest.runTestSpecifications([module.toTestSpecification()])
    const raised = vitest.state.getUnhandledErrors().length
    if (raised > 0) return { ...count(vitest), flaky: [] }
  }
  const stillFailing = new Set(vitest.state.getTestModules().flatMap(namesOfFailed))
  return { ...count(vitest), flaky: failedTests.filter((name) => !stillFailing.has(name)) }
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
