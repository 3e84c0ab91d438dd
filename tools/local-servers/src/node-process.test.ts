import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startNode } from './node-process.ts'

test('the young generation of a program grows to 32 MiB and no further', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  // The program keeps many objects alive, so that V8 grows the young generation to its limit.
  const program = `
    import { getHeapSpaceStatistics } from 'node:v8'
    let inUse = []
    let most = 0
    for (let n = 0; n < 2_000_000; n += 1) {
      inUse.push({ n, text: 'text ' + n })
      if (inUse.length > 100_000) inUse = []
      if (n % 1_000 > 0) continue
      most = Math.max(most, getHeapSpaceStatistics().find((each) => each.space_name === 'new_space').space_size)
    }
    console.log(most / 1024 ** 2)`
  await writeFile(join(folder, 'main.mjs'), program)
  const logFile = join(folder, 'log')
  const { server } = await startNode('program', join(folder, 'main.mjs'), {}, logFile)
  expect(await server.ended).toBe('exit code 0')
  const mebibytes = Number(await readFile(logFile, 'utf8'))
  expect(mebibytes).toBeGreaterThan(16)
  // V8 may have a page or two besides the two semi-spaces.
  expect(mebibytes).toBeLessThan(36)
})
