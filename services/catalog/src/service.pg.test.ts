import { callWithIds, callWithoutIds } from '@licensing/grpc/testing/unscoped-requests'
import { CatalogService } from '@licensing/proto/catalog'
import { contentsOf } from '@licensing/test-support/contents'
import { expect, test } from 'vitest'
import { catalogOfFile } from '../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, sql } = catalog

test('every RPC refuses a request without its account or application, and changes nothing', async () => {
  const before = await contentsOf(sql)
  const answers = await callWithoutIds(CatalogService, calls)
  expect(answers.length).toBeGreaterThan(CatalogService.methods.length)
  expect(answers.filter(({ answer }) => answer !== 'internal')).toEqual([])
  expect(await contentsOf(sql)).toEqual(before)
  expect(catalog.licensing.copies.size).toBe(0)
})

test('the same requests with all ids are answered, or refused for other reasons', async () => {
  const answers = Object.entries(await callWithIds(CatalogService, calls))
  expect(answers.filter(([, answer]) => answer === 'internal')).toEqual([])
})
