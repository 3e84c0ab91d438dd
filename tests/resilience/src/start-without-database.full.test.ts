import { connect } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { startFaultyProxy } from '@licensing/test-support/faulty-proxy'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import type { PostgresServer } from '@licensing/local-servers/postgres'
import type { TestProcess } from '@licensing/test-support/test-process'
import { startRecoveringPostgres } from '@licensing/test-support/recovering-postgres'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'

let server: PostgresServer
let stack: Stack
/** 10 s on a machine that starts a service within 2 s, and more on a slower one. */
let servesWithinMs: number
beforeAll(async () => {
  server = await startOwnPostgres()
  stack = await startStack({ postgresUrl: server.url() })
  const startedAt = performance.now()
  await (
    await startAll(stack, () => ({}))
  ).started
  servesWithinMs = Math.max(10_000, 5 * (performance.now() - startedAt))
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await server[Symbol.asyncDispose]()
})

interface Line {
  level: string
  msg: string
  step?: string
  part?: string
}

const names = ['catalog', 'licensing', 'billing', 'notifier'] as const
const waits = 'start waits for the database, which is unavailable'
const goesOn = 'the database is available, start goes on'

function services(stack: Stack): { name: (typeof names)[number]; service: TestProcess }[] {
  return names.map((name) => ({ name, service: stack.processes[name][0]! }))
}

/** The environment that an earlier test may have changed. */
const usual = (name: (typeof names)[number]) => ({ DATABASE_URL: stack.databaseUrls[name] })

/** Returns a function that reads the log lines of a process from now on. */
async function logFromNow(service: TestProcess): Promise<() => Promise<Line[]>> {
  const from = (await service.log()).length
  return async () => {
    const lines = (await service.log()).slice(from).split('\n')
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as Line)
  }
}

/** Stops all four services, and starts them while their database is unavailable. */
async function startAll(stack: Stack, changes: (name: (typeof names)[number]) => Record<string, string>) {
  await Promise.all(services(stack).map(({ service }) => service.stop()))
  const logs = await Promise.all(services(stack).map(({ service }) => logFromNow(service)))
  // Rejects if a process ends before it is ready.
  const started = Promise.all(
    services(stack).map(({ name, service }) => service.start({ ...usual(name), ...changes(name) })),
  )
  started.catch(() => {})
  return { started, logs }
}

function expectOneLine(lines: Line[]): void {
  expect(lines.filter(({ level }) => ['error', 'fatal'].includes(level))).toEqual([])
  expect(lines.filter(({ msg }) => [waits, goesOn].includes(msg)).map(({ msg }) => msg)).toEqual([
    waits,
    goesOn,
  ])
  expect(lines.filter(({ msg }) => msg === 'stopping')).toEqual([])
}

async function expectWaiting(service: TestProcess): Promise<void> {
  await eventually(async () => {
    const answer = await fetch(`${service.operationsUrl}/readyz`)
    expect(answer.status).toBe(503)
    const { probes } = (await answer.json()) as { probes: Record<string, string> }
    expect(probes['start']).toBe('has not finished: waiting for the database')
    expect(probes['database']).toMatch(/^is unavailable: /)
  })
}

function through(url: string, port: number): string {
  const via = new URL(url)
  via.port = String(port)
  return via.href
}

test('services that start while PostgreSQL is down or recovering stay alive, log one line, and serve within 10 s after its start', async () => {
  await server.kill()
  const { started, logs } = await startAll(stack, () => ({}))
  for (const { service } of services(stack)) await expectWaiting(service)
  for (const { service } of services(stack)) {
    expect((await fetch(`${service.operationsUrl}/healthz`)).status).toBe(200)
  }
  const returnedAt = performance.now()
  await server.start()
  await started
  expect(performance.now() - returnedAt).toBeLessThan(servesWithinMs)
  for (const log of logs) expectOneLine(await log())
})

test('if a recovering PostgreSQL refuses the first connection, services still start, and log one line', async () => {
  await using recovering = await startRecoveringPostgres(new URL(server.url()).host)
  recovering.recover()
  const { started, logs } = await startAll(stack, (name) => ({
    DATABASE_URL: through(stack.databaseUrls[name], recovering.port),
  }))
  for (const { service } of services(stack)) await expectWaiting(service)
  const returnedAt = performance.now()
  recovering.recovered()
  await started
  expect(performance.now() - returnedAt).toBeLessThan(servesWithinMs)
  for (const log of logs) expectOneLine(await log())
})

test('if the connection stalls during a start, /healthz fails; when it works again, the start goes on', async () => {
  await using proxy = await startFaultyProxy(new URL(server.url()).host)
  const service = stack.processes.catalog[0]!
  const url = stack.databaseUrls.catalog
  const others = connect(url, { name: 'others', max: 2 })
  const blocker = await others.reserve()
  // Blocks the start at a known point, with the lock of catalog's bootstrap.
  await blocker`select pg_advisory_lock(${locks.bootstrap})`
  await service.stop()
  const started = service.start({ DATABASE_URL: through(url, proxy.port) })
  await eventually(async () => {
    const waiting = await others`
      select 1 from pg_stat_activity where application_name = 'catalog' and wait_event = 'advisory'`
    expect(waiting).toHaveLength(1)
  })
  proxy.hold()
  await blocker`select pg_advisory_unlock(${locks.bootstrap})`
  blocker.release()
  await eventually(async () => {
    const answer = await fetch(`${service.operationsUrl}/healthz`)
    expect(answer.status).toBe(503)
    expect(await answer.json()).toEqual({ status: 'the database does not answer' })
  })
  proxy.flow()
  await others.end({ timeout: 1 })
  await started
  expect((await fetch(`${service.operationsUrl}/readyz`)).status).toBe(200)
})

test('services log an outage of PostgreSQL not as an error, and only once for each background task', async () => {
  await (
    await startAll(stack, () => ({ SWEEP_INTERVAL_SECONDS: '1' }))
  ).started
  const logs = await Promise.all(services(stack).map(({ service }) => logFromNow(service)))
  await server.kill()
  // Not a poll: the test needs time for many attempts of all background tasks.
  await sleep(5_000)
  await server.start()
  for (const { service } of services(stack)) await service.untilReady()
  for (const log of logs) {
    const lines = await log()
    expect(lines.filter(({ level }) => ['error', 'fatal'].includes(level))).toEqual([])
    const works = lines.filter(({ msg }) =>
      /upkeep|sweep|: trying again|deliveries could not|endpoints could not be read/.test(msg),
    )
    const counts = Map.groupBy(works, ({ msg, part }) => `${msg} ${part ?? ''}`)
    expect([...counts].filter(([, same]) => same.length > 1).map(([work]) => work)).toEqual([])
  }
})
