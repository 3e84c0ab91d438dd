import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path/posix'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** The folders of the service, from the bottom up. A folder imports from itself and from lower layers. */
const layers = [
  ['processor', 'alerts', 'queues', 'prices', 'payments', 'payment-days'],
  ['connected-accounts', 'facts', 'refunds'],
  ['inbox', 'effects'],
  ['fees'],
  ['checkout-sessions', 'sale-events'],
  ['purchases'],
]

/** Files beside the folders that every folder may import. */
const shared = ['calendar.ts', 'checks.ts', 'config.ts', 'dependencies.ts', 'period-queries.ts', 'timing.ts']

const cwd = fileURLToPath(new URL('../src', import.meta.url))
const layerOf = (folder: string) => layers.findIndex((folders) => folders.includes(folder))

test('a folder imports only from itself, from lower layers and from the shared files', () => {
  const files = globSync('*/**/*.ts', { cwd, exclude: ['**/*.test.ts'] })
  const folders = new Set(files.map((file) => file.split('/')[0]!))
  expect([...folders].toSorted()).toEqual(layers.flat().toSorted())
  const upward = files.flatMap((file) => {
    const folder = file.split('/')[0]!
    const text = readFileSync(`${cwd}/${file}`, 'utf8')
    const imports = [...text.matchAll(/from '(\.[^']+)'/g)].map(([, to]) => join(dirname(file), to!))
    return imports
      .filter((imported) => {
        const to = imported.split('/')[0]!
        return to.endsWith('.ts') ? !shared.includes(to) : to !== folder && layerOf(to) >= layerOf(folder)
      })
      .map((imported) => `${file} imports from ${imported}`)
  })
  expect(upward).toEqual([])
})
