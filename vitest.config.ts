import { existsSync, globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { parse } from 'yaml'
import { LongestFirst } from './tests/support/src/longest-first.ts'

const tests = ['**/*.test.ts']
const notOurs = ['**/node_modules/**', '**/dist/**']
// Long tests, and those of programs that a bare machine lacks (tests/support/src/run.ts).
const notNow = process.env['TEST_FULL_FILES'] ? [] : ['**/*.full.test.ts']

// A project for each package of the workspace that has tests, named after its folder.
const { packages } = parse(readFileSync(new URL('pnpm-workspace.yaml', import.meta.url), 'utf8')) as {
  packages: string[]
}
const cwd = import.meta.dirname
const folders = globSync(packages, { cwd }).filter(
  (folder) =>
    existsSync(`${cwd}/${folder}/package.json`) &&
    globSync(tests, { cwd: `${cwd}/${folder}`, exclude: notOurs }).length > 0,
)

export default defineConfig({
  test: {
    projects: folders.map((folder) => ({
      test: {
        name: folder.replaceAll(/[\\/]/g, '-'),
        root: folder,
        include: tests,
        setupFiles: [`${cwd}/tests/support/src/seed.ts`],
        exclude: [...notOurs, ...notNow],
        // A worker keeps its modules for the next file: this saves a third of the CPU time of a service's tests, and files
        // share a stack (`sharedStack`). The integration tests choose images in their environment, so each file has a worker.
        isolate: folder === 'tests/integration',
        // Only against a hanging test: a busy machine takes ten times as long as an idle one. Promises about time are
        // expectations of their tests.
        testTimeout: 240_000,
        hookTimeout: 240_000,
      },
    })),
    // Once for the whole run, not once for each project.
    globalSetup: ['tests/support/src/global-setup.ts'],
    // More than cores: tests wait for faults, restarts and timers.
    maxWorkers: availableParallelism() + 2,
    sequence: { sequencer: LongestFirst },
  },
})
