import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'

function run(body: string, env: Record<string, string> = {}) {
  const script = `
    import { z } from 'zod'
    import { processConfig, readConfig } from './config.ts'
    import { defineProgram } from './run.ts'
    const schema = z.object({ ...processConfig, NEEDED: z.string().describe('what is needed') })
    const readSettings = (env) => readConfig(schema, env)
    defineProgram('test', readSettings, async ({ log, health, onStop, step, stopping }) => { ${body} }).run()`
  const child = spawn(process.execPath, ['--input-type=module-typescript', '--eval', script], {
    cwd: import.meta.dirname,
    env: { ...process.env, NEEDED: 'yes', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const until = async (text: string) => {
    while (!output.includes(text)) await once(child.stdout, 'data')
  }
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, output }))
  return { child, until, ended }
}

const waiting = `
  const timer = setInterval(() => {}, 1000)
  const closed = []
  process.on('exit', () => console.log('closed: ' + closed.join(', ')))
  onStop('first', () => { clearInterval(timer); closed.push('first') })
  onStop('second', async () => { await new Promise((r) => setTimeout(r, 20)); closed.push('second') })`

test.for([
  ['SIGTERM', {}, (child: ChildProcess) => child.kill('SIGTERM')],
  ['SIGINT', {}, (child: ChildProcess) => child.kill('SIGINT')],
  [
    'the end of its input with STOP_WITH_PARENT',
    { STOP_WITH_PARENT: '1' },
    (child: ChildProcess) => child.stdin!.end(),
  ],
] as const)('%s closes what was opened, last first, and exits 0', async ([, env, stop]) => {
  const process = run(waiting, env)
  await process.until('"serving"')
  stop(process.child)
  const { code, output } = await process.ended
  expect(code).toBe(0)
  expect(output).toContain('closed: second, first')
  expect(output).toContain('"stopped"')
})

test('a start that fails closes what was opened and exits 1', async () => {
  const { code, output } = await run(`${waiting}; throw new Error('port is taken')`).ended
  expect(code).toBe(1)
  expect(output).toContain('port is taken')
  expect(output).toContain('closed: second, first')
})

test('an invalid environment is reported readably, and the process exits 2', async () => {
  const { code, output } = await run(waiting, { NEEDED: '' }).ended
  expect(code).toBe(2)
  expect(output).toContain('NEEDED: is missing (what is needed)')
})

test('it is not ready before its start has succeeded; then /readyz reports the probes, and /metrics and /healthz answer', async () => {
  const address = await freeAddress()
  const process = run(
    `${waiting}; step('nats'); let well = false; process.stdin.once('data', () => { well = true })
     const before = await fetch('http://${address}/readyz')
     console.log('before: ' + before.status + ' ' + await before.text())
     health.add('database', () => { if (!well) throw new Error('unavailable') })`,
    { METRICS_ADDRESS: address },
  )
  await process.until('"serving"')
  const get = async (path: string) => fetch(`http://${address}${path}`)
  expect((await get('/healthz')).status).toBe(200)
  const first = await get('/readyz')
  expect(first.status).toBe(503)
  expect(await first.json()).toEqual({ ready: false, probes: { start: null, database: 'unavailable' } })
  expect(await (await get('/metrics')).text()).toContain('process_cpu_user_seconds_total')
  process.child.stdin.write('well')
  while ((await get('/readyz')).status !== 200) await new Promise((resolve) => setTimeout(resolve, 20))
  process.child.kill('SIGTERM')
  const { code, output } = await process.ended
  expect(code).toBe(0)
  expect(output).toContain('before: 503 {"ready":false,"probes":{"start":"has not finished: nats"}}')
})

test('SIGTERM in the middle of a start ends it with exit 0, and no warning or error is logged', async () => {
  const process = run(
    `${waiting}
     console.log('starting')
     await new Promise((_, reject) => stopping.addEventListener('abort', () => reject(new Error('closed'))))`,
  )
  await process.until('starting')
  process.child.kill('SIGTERM')
  const { code, output } = await process.ended
  expect(code).toBe(0)
  expect(linesOf(output).map(({ level }) => level)).toEqual(['info', 'info'])
})

function linesOf(output: string): Record<string, unknown>[] {
  const lines = output.split('\n').filter((line) => line.startsWith('{'))
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>)
}

/** A free port in a range that neither the servers of other tests nor outgoing connections use. */
async function freeAddress(): Promise<string> {
  for (;;) {
    const port = randomInt(10_000, 15_000)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
    })
    if (isFree) return `127.0.0.1:${port}`
  }
}
