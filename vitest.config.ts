import { existsSync, globSync, readFileSync } from 'node:fs'
import { defineConfig } from 'vitest/config'
import { parse } from 'yaml'

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
        exclude: notOurs,
        testTimeout: 30_000,
        hookTimeout: 60_000,
      },
    })),
    // Once for the whole run, not once for each project.
    globalSetup: ['tests/support/src/global-setup.ts'],
    maxWorkers: 2,
  },
})
