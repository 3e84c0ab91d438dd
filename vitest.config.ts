import { existsSync, globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { parse } from 'yaml'
import { LongestFirst } from './tests/support/src/longest-first.ts'

const tests = ['**/*.test.ts']
const notOurs = ['**/node_modules/**', '**/dist/**']

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
        exclude: notOurs,
        // A worker keeps what it has loaded for its next file: a third of the CPU time of a service's tests. Those that
        // choose in their environment what all of a file runs on have a worker of their own.
        isolate: folder === 'tests/integration',
        // Against hanging alone: a busy machine takes ten times what a quiet one does. What a test says about time it expects.
        testTimeout: 240_000,
        hookTimeout: 240_000,
      },
    })),
    // Once for the whole run, not once for each project.
    globalSetup: ['tests/support/src/global-setup.ts'],
    // More than cores: tests wait for faults, restarts and timers. With four on two cores a slow machine is short of time.
    maxWorkers: availableParallelism() + 1,
    sequence: { sequencer: LongestFirst },
  },
})
