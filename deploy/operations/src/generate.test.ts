import { CHECKOUT } from '@licensing/local-servers/services'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { configurations } from './configuration.ts'
import { generated } from './generate.ts'

test('the dashboards, the rules for Kubernetes and the reference of variables are generated from their sources', async () => {
  for (const [file, text] of Object.entries(await generated())) {
    expect(
      await readFile(join(CHECKOUT, file), 'utf8'),
      `run the generator of deploy/operations: ${file}`,
    ).toBe(text)
  }
})

test('the reference has every variable of every component, with its meaning, its unit and its default', async () => {
  const text = await readFile(join(CHECKOUT, 'docs/operations/configuration.md'), 'utf8')
  const rows = [...text.matchAll(/^\| `([A-Z_]+)` +\|(.*)\|$/gm)].map(([, name = '', cells = '']) => ({
    name,
    cells: cells.split(/(?<!\\)\|/).map((cell) => cell.trim()),
  }))
  const names = new Set(Object.values(configurations).flatMap(({ shape }) => Object.keys(shape)))
  expect(new Set(rows.map(({ name }) => name))).toEqual(names)
  for (const { name, cells } of rows) {
    expect(cells, name).toHaveLength(3)
    expect(cells, name).not.toContain('')
  }
})
