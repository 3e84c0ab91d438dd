import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '@licensing/local-servers/ports'
import { expect, onTestFinished, test, vi } from 'vitest'
import { takeDataFolder } from './data-folder.ts'
import { startPrograms } from './programs.ts'
import { Waits } from './waits.ts'

const pollOptions = { timeout: 30_000 }

const PROGRAM = `
import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
createServer((request, response) => {
  const isReady = existsSync(process.env.READY_FILE)
  const probes = { start: isReady ? null : 'has not finished: migration 7' }
  response.writeHead(isReady ? 200 : 503).end(JSON.stringify({ ready: isReady, probes }))
}).listen(Number(process.env.PORT), '127.0.0.1')
`

test('a start waits for a program as long as it runs, and prints lines that say what is missing', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-local-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const main = join(folder, 'slow.mjs')
  await writeFile(main, PROGRAM)
  const port = await freePort()
  const readyFile = join(folder, 'ready')
  const said: string[] = []
  const say = (line: string) => void said.push(line)
  await using data = await takeDataFolder(join(folder, 'data'), say)
  await using started = new AsyncDisposableStack()
  using waits = new Waits(say, 50)
  const program = {
    name: 'slow',
    main,
    env: { PORT: String(port), READY_FILE: readyFile },
    readyUrl: `http://127.0.0.1:${port}/readyz`,
  }
  const context = { say, waits, signal: new AbortController().signal }
  const ready = startPrograms([[program]], data, started, context)
  const line = 'waiting for slow (start has not finished: migration 7)'
  await expect.poll(() => said, pollOptions).toContain(line)
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 3_600_000 })
  onTestFinished(() => void vi.useRealTimers())
  const before = said.length
  // The program is checked every 50 ms.
  await expect.poll(() => said.length, pollOptions).toBeGreaterThan(before + 10)
  vi.useRealTimers()
  await writeFile(readyFile, '')
  await ready
  expect(said.at(-1)).toBe('slow is ready')
})

test('lines are printed only while the start waits for something', async () => {
  const said: string[] = []
  using waits = new Waits((line) => said.push(line), 5)
  const [first, second] = [Promise.withResolvers<number>(), Promise.withResolvers<number>()]
  const both = [waits.during('postgres', first.promise), waits.during('the portal', second.promise)]
  await expect.poll(() => said.at(-1), pollOptions).toBe('waiting for postgres, the portal')
  first.resolve(1)
  await expect.poll(() => said.at(-1), pollOptions).toBe('waiting for the portal')
  second.reject(new Error('failed'))
  expect(await Promise.allSettled(both)).toMatchObject([{ value: 1 }, { status: 'rejected' }])
  const count = said.length
  await new Promise((resolve) => setTimeout(resolve, 50))
  expect(said).toHaveLength(count)
})
