import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { pathIds } from '../fields/id.ts'
import { routes } from '../routes/table.ts'
import { committedFile, committedText } from './committed.ts'
import { openApiDocument } from './document.ts'

const document = openApiDocument(routes)

test('every route of the table is in the document, and nothing else', () => {
  const documented = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.keys(operations).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(documented.toSorted()).toEqual(routes.map(({ method, path }) => `${method} ${path}`).toSorted())
})

test('every operation has an id of its own, a summary, its success and its errors', () => {
  const operations = Object.values(document.paths).flatMap((each) => Object.values(each))
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
  for (const operation of operations) {
    expect(operation.summary, operation.operationId).toEqual(expect.any(String))
    const statuses = Object.keys(operation.responses)
    expect(
      statuses.some((status) => status.startsWith('2')),
      operation.operationId,
    ).toBe(true)
    for (const status of ['429', '500', '503']) expect(statuses, operation.operationId).toContain(status)
  }
})

test('every reference in the document leads somewhere', () => {
  const text = JSON.stringify(document)
  const references = [...text.matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path]) => path!)
  expect(references.length).toBeGreaterThan(100)
  for (const reference of references) {
    const target = reference
      .split('/')
      .reduce<unknown>((at, part) => (at as Record<string, unknown>)?.[part], document)
    expect(target, reference).toBeDefined()
  }
})

test('every parameter in a path is an id that the gateway knows', () => {
  for (const { path } of routes) {
    for (const [, name] of path.matchAll(/\{([^}]+)\}/g)) expect(pathIds, path).toHaveProperty(name!)
  }
})

test('the committed document is the one that the routes make: run `pnpm --filter @licensing/gateway generate`', async () => {
  expect(await readFile(committedFile, 'utf8')).toBe(committedText())
})
