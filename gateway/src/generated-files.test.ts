import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { generatedFiles } from './generated-files.ts'

test('the OpenAPI document and the guides are up to date: run `pnpm --filter @licensing/gateway generate`', async () => {
  for (const { file, make } of generatedFiles) expect(await readFile(file, 'utf8')).toBe(make())
})
