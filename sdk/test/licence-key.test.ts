import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'

test('the SDK reads licence keys with the code of the services', async () => {
  const [ours, theirs] = await Promise.all(
    ['../src/product/licence-key.ts', '../../packages/keys/src/licence-key.ts'].map((file) =>
      readFile(new URL(file, import.meta.url), 'utf8'),
    ),
  )
  expect(ours, 'run pnpm --filter @licensing/sdk generate').toBe(theirs)
})
