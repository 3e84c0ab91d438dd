import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

const read = (file: string) => readFile(new URL(file, import.meta.url), 'utf8')

test.each([
  ['../src/product/licence-key.ts', '../../../packages/formats/src/licence-key.ts'],
  ['../src/retry-after.ts', '../../../packages/formats/src/retry-after.ts'],
])('%s is the code of the services: run pnpm --filter @licensing/sdk generate', async (copy, original) => {
  expect(await read(copy)).toBe(await read(original))
})
