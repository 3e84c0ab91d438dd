import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

/**
 * Keeps about 20 MiB in use and replaces them piece by piece, so that all garbage is in the old generation.
 *
 * @returns the largest old generation that was seen, in MiB
 */
async function maxOldSpace(first: string): Promise<number> {
  const script = `
    import { getHeapSpaceStatistics } from 'node:v8'
    import { keepHeapSmall } from './heap.ts'
    ${first}
    const inUse = []
    let most = 0
    for (let n = 0; n < 4_000_000; n += 1) {
      inUse[n % 250_000] = { n, text: 'text ' + n }
      if (n % 1_000 > 0) continue
      const space = getHeapSpaceStatistics().find((each) => each.space_name === 'old_space')
      most = Math.max(most, space.space_used_size)
    }
    console.log(most / 1024 ** 2)`
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ['--max-semi-space-size=4', '--input-type=module-typescript', '--eval', script],
    { cwd: import.meta.dirname },
  )
  return Number(stdout)
}

test('V8 collects the old generation much earlier than by default', async () => {
  const [kept, leftAlone] = await Promise.all([maxOldSpace('keepHeapSmall()'), maxOldSpace('')])
  expect(kept).toBeLessThan(leftAlone / 1.5)
})
