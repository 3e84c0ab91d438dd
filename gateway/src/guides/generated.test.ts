import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { generatedGuides } from './generated.ts'

test('the guides to events and errors are those that the code makes: run `pnpm --filter @licensing/gateway generate`', async () => {
  for (const { file, make } of generatedGuides) expect(await readFile(file, 'utf8')).toBe(make())
})
