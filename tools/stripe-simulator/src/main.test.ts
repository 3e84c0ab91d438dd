import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const main = fileURLToPath(new URL('./main.ts', import.meta.url))

function start(env: Record<string, string>): ChildProcess {
  return spawn(process.execPath, [main], {
    env: { ...process.env, HTTP_ADDRESS: '127.0.0.1:0', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
}

async function serving(child: ChildProcess): Promise<{ url: string; simulated: boolean }> {
  if (child.stdout === null) throw new Error('no output')
  for await (const line of createInterface({ input: child.stdout })) {
    const entry = JSON.parse(line) as { msg: string; url: string; simulated: boolean }
    if (entry.msg === 'listening') return entry
  }
  throw new Error('the simulator ended before it was ready')
}

test('the process prints when it is ready, with `simulated`, and SIGTERM ends it cleanly', async () => {
  const child = start({})
  const { url, simulated } = await serving(child)
  expect(simulated).toBe(true)
  expect((await fetch(`${url}/healthz`)).status).toBe(200)
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})

test('with STOP_WITH_PARENT it ends when the process that started it ends', async () => {
  const child = start({ STOP_WITH_PARENT: '1' })
  await serving(child)
  child.stdin?.end()
  expect(await once(child, 'exit')).toEqual([0, null])
})
