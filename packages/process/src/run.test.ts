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
    `${waiting}; let well = false; process.stdin.once('data', () => { well = true })
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
  expect(output).toContain('before: 503 {"ready":false,"probes":{"start":"has not finished: start"}}')
})

test.concurrent(
  'a start that makes no progress fails /healthz, then exits 1 and names its step',
  async () => {
    const address = await freeAddress()
    const process = run(`${waiting}; step('port'); step('nats'); await new Promise(() => {})`, {
      METRICS_ADDRESS: address,
      START_LIMIT_SECONDS: '6',
    })
    const statuses: number[] = []
    const ready = await untilAnswer(`http://${address}/readyz`)
    expect(await ready.json()).toMatchObject({ ready: false, probes: { start: 'has not finished: nats' } })
    while (process.child.exitCode === null) {
      const answer = await fetch(`http://${address}/healthz`).catch(() => undefined)
      if (!answer) break
      statuses.push(answer.status)
      if (answer.status === 503)
        expect(await answer.json()).toEqual({ status: 'start does not get on: nats' })
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    const { code, output } = await process.ended
    expect([...new Set(statuses)]).toEqual([200, 503])
    expect(code).toBe(1)
    const lines = linesOf(output)
    expect(lines.filter(({ level }) => level === 'fatal')).toMatchObject([
      { msg: 'could not start: no progress', step: 'nats', seconds: 6 },
    ])
    expect(lines.filter(({ level }) => level === 'warn')).toMatchObject([
      { msg: 'start makes no progress', step: 'nats', seconds: 3 },
    ])
    expect(output).toContain('closed: second, first')
  },
)

test.concurrent('a start that is stuck also ends if closing fails', async () => {
  const { code, output } = await run(
    `onStop('broken', () => { throw new Error('half open') }); await new Promise(() => {})`,
    { START_LIMIT_SECONDS: '2' },
  ).ended
  expect(code).toBe(1)
  expect(output).toContain('half open')
})

test.concurrent(
  'a start may take longer than its limit and stays alive as long as it makes progress',
  async () => {
    const address = await freeAddress()
    const process = run(
      `${waiting}
     const unwell = []
     for (let at = 0; at < 70; at += 1) {
       step('migrating')
       await new Promise((r) => setTimeout(r, 100))
       const { status } = await fetch('http://${address}/healthz')
       if (status !== 200) unwell.push(status)
     }
     console.log('unwell: ' + unwell.length)`,
      { METRICS_ADDRESS: address, START_LIMIT_SECONDS: '6' },
    )
    await process.until('"serving"')
    process.child.kill('SIGTERM')
    const { code, output } = await process.ended
    expect(code).toBe(0)
    expect(output).toContain('unwell: 0')
    expect(linesOf(output).filter(({ level }) => level !== 'info')).toEqual([])
  },
)

test.concurrent('a process whose start was slow is alive after it', async () => {
  const address = await freeAddress()
  const process = run(`${waiting}; await new Promise((r) => setTimeout(r, 3300))`, {
    METRICS_ADDRESS: address,
    START_LIMIT_SECONDS: '6',
  })
  await process.until('makes no progress')
  await process.until('"serving"')
  expect((await fetch(`http://${address}/healthz`)).status).toBe(200)
  process.child.kill('SIGTERM')
  expect((await process.ended).code).toBe(0)
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

async function untilAnswer(url: string): Promise<Response> {
  for (;;) {
    const answer = await fetch(url).catch(() => undefined)
    if (answer) return answer
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

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
