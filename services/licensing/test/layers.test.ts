import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** The folders of the service, from the bottom up. A folder imports from itself and from lower layers. */
const layers = [
  ['lifecycle', 'signing-keys', 'call-homes', 'application-days'],
  ['plans', 'revocations'],
  ['purchases', 'overrides'],
  ['licences', 'activations'],
  ['trials', 'customers'],
  ['sweeps', 'admin'],
]

/** Files beside the folders that every folder may import. */
const shared = ['config.ts', 'dependencies.ts']

const cwd = fileURLToPath(new URL('../src', import.meta.url))
const layerOf = (folder: string) => layers.findIndex((folders) => folders.includes(folder))

test('a folder imports only from itself, from lower layers and from the shared files', () => {
  const files = globSync('*/**/*.ts', { cwd, exclude: ['**/*.test.ts'] })
  const folders = new Set(files.map((file) => file.split('/')[0]!))
  expect([...folders].toSorted()).toEqual(layers.flat().toSorted())
  const upward = files.flatMap((file) => {
    const folder = file.split('/')[0]!
    const text = readFileSync(`${cwd}/${file}`, 'utf8')
    const imports = [...text.matchAll(/from '\.\.\/([^/']+)/g)].map(([, imported]) => imported!)
    return imports
      .filter((imported) =>
        imported.endsWith('.ts')
          ? !shared.includes(imported)
          : imported !== folder && layerOf(imported) >= layerOf(folder),
      )
      .map((imported) => `${file} imports from ${imported}`)
  })
  expect(upward).toEqual([])
})
