import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { locks } from './locks.ts'

const root = fileURLToPath(new URL('../../..', import.meta.url))

/** The arguments of all calls of advisory lock functions in packages and services. */
function lockedBy(): { file: string; argument: string }[] {
  const files = globSync(['packages/*/src/**/*.ts', 'services/*/{src,migrations}/**/*.{ts,sql}'], {
    cwd: root,
  })
  return files
    .filter((file) => !file.endsWith('.test.ts'))
    .flatMap((file) =>
      [...readFileSync(`${root}/${file}`, 'utf8').matchAll(/\bpg_\w*advisory_\w+\((.{0,30})/g)].map(
        ([, argument = '']) => ({ file, argument }),
      ),
    )
}

test('no two advisory locks have the same id', () => {
  const ids = Object.values(locks)
  expect(new Set(ids).size).toBe(ids.length)
})

test('each advisory lock has an id of the list, or a hash as its id', () => {
  const calls = lockedBy()
  expect(calls.length).toBeGreaterThan(Object.keys(locks).length)
  const others = calls.filter(({ argument }) => {
    const name = /^\$\{locks\.(\w+)\}\)/.exec(argument)?.[1]
    return name === undefined ? !argument.startsWith('hashtextextended(') : !Object.hasOwn(locks, name)
  })
  expect(others).toEqual([])
})

test('every id of the list is used', () => {
  const used = lockedBy().map(({ argument }) => /locks\.(\w+)/.exec(argument)?.[1])
  expect(Object.keys(locks).filter((name) => !used.includes(name))).toEqual([])
})
