import { callWithIds, callWithoutIds } from '@licensing/grpc/testing/unscoped-requests'
import { CatalogService } from '@licensing/proto/catalog'
import { contentsOf } from '@licensing/test-support/contents'
import { expect, test } from 'vitest'
import { startTestCatalog } from '../test/catalog.ts'

test('every RPC refuses a request without its account or application, and changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const before = await contentsOf(catalog.sql)
  const answers = await callWithoutIds(CatalogService, catalog.calls)
  expect(answers.length).toBeGreaterThan(CatalogService.methods.length)
  expect(answers.filter(({ answer }) => answer !== 'internal')).toEqual([])
  expect(await contentsOf(catalog.sql)).toEqual(before)
  expect(catalog.licensing.copies.size).toBe(0)
})

test('the same requests with all ids are answered, or refused for other reasons', async () => {
  await using catalog = await startTestCatalog()
  const answers = Object.entries(await callWithIds(CatalogService, catalog.calls))
  expect(answers.filter(([, answer]) => answer === 'internal')).toEqual([])
})
