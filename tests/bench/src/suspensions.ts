import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { commandLineOf } from '@licensing/local-servers/process-table'
import { apiClient } from '@licensing/test-support/api-client'
import { startLocalStack } from '@licensing/test-support/local-stack'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Pool } from 'undici'
import { memoryMebibytes } from './at-rest.ts'
import { scaled } from './bench-scale.ts'
import { cpuSeconds, cpuSecondsOfEach } from './notifier/cpu-time.ts'
import { machineMs } from './notifier/machine-clock.ts'
import { startReceiver } from './notifier/start-receiver.ts'
import type { Receiver } from './notifier/start-receiver.ts'
import { atLeast, atMost, beside, median, quantile, under } from './report.ts'
import type { Figure, Section } from './report.ts'
import { givenPopulation } from './scale/population.ts'
import { startSetting } from './setting.ts'
import { givenDeliveries } from './support/history.ts'
import { givenDefinitions, givenLicences, givenPlan, withKey } from './vendor.ts'

const callers = 32
const endpoints = 4
const rounds = 3
const count = scaled(5_000, 100)
/** For a suspension and its deliveries. */
const maxCpuMs = 3
const unlimited = '100000000'
const past = { licences: scaled(200_000, 1_000), events: scaled(1_000_000, 10_000) }

/** Suspensions with four deliveries each, with and without an Idempotency-Key in turns, on empty databases and with a past. */
export async function suspensions(): Promise<Section> {
  const empty = await costsOf('empty', separateProcesses)
  const one = await costsOf('one process', oneProcess)
  const full = await costsOf('with a past', separateProcesses)
  const accepted = (costs: Costs) => median(costs['without a key'].map((cost) => cost.callsPerSecond))
  const apart = { name: 'a process per service', value: accepted(empty), unit: '/s' }
  return {
    title: `${count} suspensions by ${callers} callers, ${endpoints} endpoints`,
    figures: [
      ...figuresOf('empty', empty),
      ...figuresOf('with a past', full, { of: empty, times: 1.1 }),
      ...figuresOf('one process', one, { of: empty, times: 1.05 }),
      atLeast('accepted by one process', accepted(one), '/s', apart, 0.9),
    ],
    notes: [
      `with a past: ${past.licences} licences and ${past.events} deliveries before`,
      `medians of ${rounds} rounds, in turns; a process per service, but for npm start`,
      'memory: of all services; for npm start the proportional set size of everything',
    ],
  }
}

/** A running stack with its processes. */
interface Target extends Pick<Stack, 'api' | 'apiKey' | 'appId' | 'gatewayUrl' | 'databaseUrls'> {
  /** Present with a process per service, whose databases can be given a past. */
  stack?: Stack
  /** The processes by name, but for PostgreSQL. */
  processes: Record<string, number>
  postgresPid: number
  memoryMiB(): Promise<number>
}

async function separateProcesses(receiver: Receiver, started: AsyncDisposableStack): Promise<Target> {
  const { stack, postgresPid } = started.use(await startSetting({ receiver }))
  const services = Object.values(stack.processes).flat()
  const processes = Object.fromEntries(services.map(({ name, pid }) => [name, pid]))
  return {
    ...stack,
    stack,
    postgresPid,
    processes: { ...processes, NATS: stack.nats.pid },
    memoryMiB: () => residentMiB(Object.values(processes)),
  }
}

/** `npm start`, which runs all services in one process. */
async function oneProcess(receiver: Receiver, started: AsyncDisposableStack): Promise<Target> {
  const { path: dataDir } = started.use(await makeTemporaryFolder())
  const environment = {
    WEBHOOK_CA_FILE: receiver.caFile,
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
    LOG_LEVEL: 'warn',
    RATE_LIMIT_PER_MINUTE: unlimited,
  }
  const local = started.use(startLocalStack({ dataDir, environment }))
  await local.ready()
  const running = JSON.parse(await readFile(`${dataDir}/stack.json`, 'utf8')) as Pick<
    Target,
    'appId' | 'apiKey' | 'databaseUrls'
  > & { gateway: string }
  const family = await Promise.all(
    (await local.family()).map(async ({ pid }) => ({ pid, command: await commandLineOf(pid) })),
  )
  const pidOf = (program: string) => family.find(({ command }) => command.includes(program))!.pid
  return {
    ...running,
    gatewayUrl: running.gateway,
    api: apiClient(running.gateway, running.apiKey),
    postgresPid: pidOf('postgres'),
    processes: { 'npm start': local.pid, NATS: pidOf('nats-server') },
    memoryMiB: () => memoryMebibytes(local),
  }
}

const kinds = ['without a key', 'with a key'] as const
type Kind = (typeof kinds)[number]
type Costs = Record<Kind, Cost[]>

/** One round. Times are CPU milliseconds for one suspension. */
interface Cost {
  cpu: Record<string, number>
  callsPerSecond: number
  deliveriesPerSecond: number
  arrivalP50Ms: number
  arrivalP99Ms: number
  memoryMiB: number
}

const totalOf = ({ cpu }: Cost) => Object.values(cpu).reduce((sum, ms) => sum + ms, 0)

async function costsOf(
  state: string,
  start: (receiver: Receiver, started: AsyncDisposableStack) => Promise<Target>,
): Promise<Costs> {
  await using folder = await makeTemporaryFolder()
  using receiver = await startReceiver(folder.path)
  await using started = new AsyncDisposableStack()
  const target = await start(receiver, started)
  const open = (url: string) => connect(url, { name: 'bench', max: 2, statementTimeoutMs: 3_600_000 })
  const [licensing, notifier] = [open(target.databaseUrls.licensing), open(target.databaseUrls.notifier)]
  if (state === 'with a past') {
    const stack = target.stack!
    await givenPopulation(stack, licensing, past.licences)
    const lastMs = Date.now()
    const history = { sales: 0, deliveries: past.events, lastMs, middle: new Date(lastMs).toISOString() }
    await givenDeliveries(stack, notifier, history, past.licences)
  } else await givenDefinitions(target)
  const planId = await givenPlan(target, 'suspended')
  for (let endpoint = 0; endpoint < endpoints; endpoint += 1) {
    const body = { url: receiver.url(`/${endpoint}`), subscribed_events: 'licence.suspended' }
    const made = await target.api.post(`/v1/apps/${target.appId}/webhook-endpoints`, { body })
    if (made.status !== 201) throw new Error(`no endpoint: ${JSON.stringify(made.body)}`)
  }
  const costs: Costs = { 'without a key': [], 'with a key': [] }
  for (let round = 0; round <= rounds; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const ids = await givenLicences(target, planId, count, `${kind}-${round}`)
      const cost = await suspendAll(target, { licensing, notifier, receiver }, ids, kind)
      // The first round only warms up.
      if (round > 0) costs[kind].push(cost)
      process.stdout.write(`${JSON.stringify({ state, kind, round, total: totalOf(cost), ...cost })}\n`)
    }
  }
  await Promise.all([licensing.end(), notifier.end()])
  return costs
}

interface Databases {
  licensing: Database
  notifier: Database
  receiver: Receiver
}

async function suspendAll(
  target: Target,
  { licensing, notifier, receiver }: Databases,
  ids: string[],
  kind: Kind,
): Promise<Cost> {
  const readCpu = await startMeter(target, licensing)
  const answeredMs = new Map<string, number>()
  const startedMs = machineMs()
  const pool = new Pool(target.gatewayUrl, { connections: callers, pipelining: 1 })
  const waiting = [...ids]
  const caller = async () => {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      const key = kind === 'with a key' && { 'idempotency-key': randomBytes(12).toString('hex') }
      const headers = { ...withKey(target), ...key }
      const answer = await pool.request({ method: 'POST', path: `/v1/licences/${id}/suspend`, headers })
      await answer.body.dump()
      if (answer.statusCode !== 200) throw new Error(`a suspension was answered ${answer.statusCode}`)
      answeredMs.set(id, machineMs())
    }
  }
  await Promise.all(Array.from({ length: callers }, caller))
  const acceptedMs = machineMs()
  const events = await eventually(
    async () => {
      const [outbox] = await licensing<{ waits: boolean }[]>`select exists (select from outbox) as waits`
      const [due] = await notifier<{ waits: boolean }[]>`
        select exists (select from deliveries where status = 'pending') as waits`
      if (outbox!.waits || due!.waits) throw new Error('some events are not delivered')
      const rows = await notifier<{ event_id: string; licence_id: string }[]>`
        select event_id, licence_id from deliveries
        where licence_id = any(${ids}::text[]) and event_type = 'licence.suspended'`
      if (rows.length < ids.length * endpoints) throw new Error('some events are not recorded')
      return new Map(rows.map((row) => [row.event_id, row.licence_id]))
    },
    { timeoutMs: 300_000, intervalMs: 250 },
  )
  const deliveredMs = machineMs()
  const cpu = await readCpu()
  await pool.close()
  const arrivals = await receiver.arrivals()
  const waits = [...events].map(([event, id]) => arrivals.get(event)! - answeredMs.get(id)!)
  const perCall = Object.entries(cpu).map(([name, seconds]) => [name, (seconds * 1000) / ids.length])
  return {
    cpu: Object.fromEntries(perCall) as Record<string, number>,
    callsPerSecond: (ids.length * 1000) / (acceptedMs - startedMs),
    deliveriesPerSecond: (ids.length * endpoints * 1000) / (deliveredMs - startedMs),
    arrivalP50Ms: quantile(waits, 0.5),
    arrivalP99Ms: quantile(waits, 0.99),
    memoryMiB: await target.memoryMiB(),
  }
}

/** Starts to count CPU time. @returns reads the seconds since then by process, and for PostgreSQL by database */
async function startMeter(
  { processes, databaseUrls, postgresPid }: Target,
  sql: Database,
): Promise<() => Promise<Record<string, number>>> {
  const services = new Map(
    Object.entries(databaseUrls).map(([name, url]) => [new URL(url).pathname.slice(1), name]),
  )
  const read = async () => {
    const pids = Object.values(processes)
    const own = await cpuSecondsOfEach(pids)
    const seconds = Object.fromEntries(Object.keys(processes).map((name, at) => [name, own[at]!]))
    const backends = await sql<{ pid: number; database: string }[]>`
      select pid, datname as database from pg_stat_activity where datname is not null`
    const each = await cpuSecondsOfEach(backends.map(({ pid }) => pid))
    let ofBackends = 0
    backends.forEach(({ database }, at) => {
      const name = `PostgreSQL, ${services.get(database) ?? 'others'}`
      seconds[name] = (seconds[name] ?? 0) + each[at]!
      ofBackends += each[at]!
    })
    // Its background processes, and sessions that have ended.
    seconds['PostgreSQL, rest'] = (await cpuSeconds(postgresPid)) - ofBackends
    return seconds
  }
  const before = await read()
  return async () => {
    const after = await read()
    return Object.fromEntries(Object.entries(after).map(([name, now]) => [name, now - (before[name] ?? 0)]))
  }
}

async function residentMiB(pids: number[]): Promise<number> {
  const sizes = await Promise.all(
    pids.map(async (pid) => {
      const status = await readFile(`/proc/${pid}/status`, 'utf8')
      return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
    }),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

function figuresOf(state: string, costs: Costs, limit?: { of: Costs; times: number }): Figure[] {
  const of = (kind: Kind, value: (cost: Cost) => number) => median(costs[kind].map(value))
  const bare: Figure = {
    name: `CPU, ${state}, without a key`,
    value: of('without a key', totalOf),
    unit: 'ms',
  }
  const first = limit && median(limit.of['without a key'].map(totalOf))
  const parts = [...new Set(costs['with a key'].flatMap(({ cpu }) => Object.keys(cpu)))]
  return [
    first === undefined
      ? under(bare.name, bare.value, 'ms', maxCpuMs)
      : atMost(bare.name, bare.value, 'ms', { name: 'empty', value: first, unit: 'ms' }, limit!.times),
    atMost(`CPU, ${state}, with a key`, of('with a key', totalOf), 'ms', bare, 1.1),
    ...parts.flatMap((part): Figure[] => {
      const value = of('without a key', ({ cpu }) => cpu[part] ?? 0)
      if (value < 0.01) return []
      const floor = { name: 'without a key', value, unit: 'ms' }
      return [
        beside(
          `… ${part}`,
          of('with a key', ({ cpu }) => cpu[part] ?? 0),
          'ms',
          floor,
        ),
      ]
    }),
    ...kinds.flatMap((kind): Figure[] => [
      { name: `accepted, ${state}, ${kind}`, value: of(kind, (cost) => cost.callsPerSecond), unit: '/s' },
      {
        name: `delivered, ${state}, ${kind}`,
        value: of(kind, (cost) => cost.deliveriesPerSecond),
        unit: '/s',
      },
      {
        name: `answer to arrival, p50, ${state}, ${kind}`,
        value: of(kind, (cost) => cost.arrivalP50Ms),
        unit: 'ms',
      },
      {
        name: `answer to arrival, p99, ${state}, ${kind}`,
        value: of(kind, (cost) => cost.arrivalP99Ms),
        unit: 'ms',
      },
      {
        name: `memory, ${state}, ${kind}`,
        value: of(kind, (cost) => cost.memoryMiB),
        unit: 'MiB',
      },
    ]),
  ]
}
