import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { guideFile, lifecycleGuide } from './lifecycle-guide.ts'

test('the guide to the lifecycle is made from the table: run `pnpm --filter @licensing/licensing guide`', async () => {
  expect(await readFile(guideFile, 'utf8')).toBe(lifecycleGuide())
})
