import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'

function run(body: string, env: Record<string, string> = {}) {
  const script = `
    import { z } from 'zod'
    import { processConfig, readConfig } from './config.ts'
    import { runProcess } from './run.ts'
    const schema = z.object({ ...processConfig, NEEDED: z.string().describe('what is needed') })
    await runProcess('test', () => readConfig(schema), async ({ log, health, onStop }) => { ${body} })`
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

test.for(['SIGTERM', 'SIGINT'] as const)(
  '%s closes what was opened, last first, and exits 0',
  async (signal) => {
    const process = run(waiting)
    await process.until('"serving"')
    process.child.kill(signal)
    const { code, output } = await process.ended
    expect(code).toBe(0)
    expect(output).toContain('closed: second, first')
    expect(output).toContain('"stopped"')
  },
)

test('a start that fails closes what was opened and exits 1', async () => {
  const { code, output } = await run(`${waiting}; throw new Error('port is taken')`).ended
  expect(code).toBe(1)
  expect(output).toContain('port is taken')
  expect(output).toContain('closed: second, first')
})

test('an environment that does not fit is told in plain words, exit 2', async () => {
  const { code, output } = await run(waiting, { NEEDED: '' }).ended
  expect(code).toBe(2)
  expect(output).toContain('NEEDED: is missing (what is needed)')
})

test('with STOP_WITH_PARENT it ends when its parent’s pipe does', async () => {
  const process = run(waiting, { STOP_WITH_PARENT: '1' })
  await process.until('"serving"')
  process.child.stdin.end()
  expect((await process.ended).code).toBe(0)
})

test('while it runs, /readyz follows the probes; /metrics and /healthz answer', async () => {
  const process = run(
    `${waiting}; let well = false; process.stdin.once('data', () => { well = true })
     health.add('database', () => { if (!well) throw new Error('away') })`,
    { METRICS_ADDRESS: '127.0.0.1:20999' },
  )
  await process.until('"serving"')
  const get = async (path: string) => fetch(`http://127.0.0.1:20999${path}`)
  expect((await get('/healthz')).status).toBe(200)
  const first = await get('/readyz')
  expect(first.status).toBe(503)
  expect(await first.json()).toEqual({ ready: false, probes: { start: null, database: 'away' } })
  expect(await (await get('/metrics')).text()).toContain('process_cpu_user_seconds_total')
  process.child.stdin.write('well')
  while ((await get('/readyz')).status !== 200) await new Promise((resolve) => setTimeout(resolve, 20))
  process.child.kill('SIGTERM')
  expect((await process.ended).code).toBe(0)
})

test('it is not ready before its start has succeeded', async () => {
  const process = run(
    `${waiting}
     const before = await fetch('http://127.0.0.1:20998/readyz')
     console.log('before: ' + before.status + ' ' + await before.text())`,
    { METRICS_ADDRESS: '127.0.0.1:20998' },
  )
  await process.until('"serving"')
  expect((await fetch('http://127.0.0.1:20998/readyz')).status).toBe(200)
  process.child.kill('SIGTERM')
  expect((await process.ended).output).toContain(
    'before: 503 {"ready":false,"probes":{"start":"has not finished"}}',
  )
})
