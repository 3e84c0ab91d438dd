import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Pool } from 'undici'
import { scaled } from './bench-scale.ts'
import { cpuSeconds, cpuSecondsOfEach } from './notifier/cpu-time.ts'
import { machineMs } from './notifier/machine-clock.ts'
import { startReceiver } from './notifier/start-receiver.ts'
import type { Receiver } from './notifier/start-receiver.ts'
import { atMost, beside, median, quantile } from './report.ts'
import type { Figure, Section } from './report.ts'
import { givenPopulation } from './scale/population.ts'
import { startSetting } from './setting.ts'
import type { Setting } from './setting.ts'
import { givenDeliveries } from './support/history.ts'
import { givenDefinitions, givenLicences, givenPlan, withKey } from './vendor.ts'

const callers = 32
const endpoints = 4
const rounds = 3
const count = scaled(5_000, 100)
const past = { licences: scaled(200_000, 1_000), events: scaled(1_000_000, 10_000) }

/** Suspensions with four deliveries each, with and without an Idempotency-Key in turns, on empty databases and with a past. */
export async function suspensions(): Promise<Section> {
  const [empty, full] = [await costsOf('empty'), await costsOf('with a past')]
  return {
    title: `${count} suspensions by ${callers} callers, ${endpoints} endpoints`,
    figures: [...figuresOf('empty', empty), ...figuresOf('with a past', full, empty)],
    notes: [
      `with a past: ${past.licences} licences and ${past.events} deliveries before`,
      `medians of ${rounds} rounds, in turns; a process per service`,
    ],
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
  residentMiB: number
}

const totalOf = ({ cpu }: Cost) => Object.values(cpu).reduce((sum, ms) => sum + ms, 0)

async function costsOf(state: 'empty' | 'with a past'): Promise<Costs> {
  await using folder = await makeTemporaryFolder()
  using receiver = await startReceiver(folder.path)
  await using setting = await startSetting({ receiver })
  const { stack } = setting
  const open = (url: string) => connect(url, { name: 'bench', max: 2, statementTimeoutMs: 3_600_000 })
  const [licensing, notifier] = [open(stack.databaseUrls.licensing), open(stack.databaseUrls.notifier)]
  if (state === 'with a past') {
    await givenPopulation(stack, licensing, past.licences)
    const lastMs = Date.now()
    const history = { sales: 0, deliveries: past.events, lastMs, middle: new Date(lastMs).toISOString() }
    await givenDeliveries(stack, notifier, history, past.licences)
  } else await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'suspended')
  for (let endpoint = 0; endpoint < endpoints; endpoint += 1) {
    const body = { url: receiver.url(`/${endpoint}`), subscribed_events: 'licence.suspended' }
    const made = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, { body })
    if (made.status !== 201) throw new Error(`no endpoint: ${JSON.stringify(made.body)}`)
  }
  const costs: Costs = { 'without a key': [], 'with a key': [] }
  for (let round = 0; round <= rounds; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const ids = await givenLicences(stack, planId, count, `${kind}-${round}`)
      const cost = await suspendAll(setting, { licensing, notifier, receiver }, ids, kind)
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
  { stack, postgresPid }: Setting,
  { licensing, notifier, receiver }: Databases,
  ids: string[],
  kind: Kind,
): Promise<Cost> {
  const readCpu = await startMeter(stack, postgresPid, licensing)
  const answeredMs = new Map<string, number>()
  const startedMs = machineMs()
  const pool = new Pool(stack.gatewayUrl, { connections: callers, pipelining: 1 })
  const waiting = [...ids]
  const caller = async () => {
    for (let id = waiting.pop(); id !== undefined; id = waiting.pop()) {
      const key = kind === 'with a key' && { 'idempotency-key': randomBytes(12).toString('hex') }
      const headers = { ...withKey(stack), ...key }
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
    residentMiB: await residentMiB(stack),
  }
}

/** Starts to count CPU time. @returns reads the seconds since then by process, and for PostgreSQL by database */
async function startMeter(
  { processes, nats, databaseUrls }: Stack,
  postgresPid: number,
  sql: Database,
): Promise<() => Promise<Record<string, number>>> {
  const services = new Map(
    Object.entries(databaseUrls).map(([name, url]) => [new URL(url).pathname.slice(1), name]),
  )
  const read = async () => {
    const seconds: Record<string, number> = { NATS: await cpuSeconds(nats.pid) }
    for (const { name, pid } of Object.values(processes).flat()) seconds[name] = await cpuSeconds(pid)
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

async function residentMiB({ processes }: Stack): Promise<number> {
  const sizes = await Promise.all(
    Object.values(processes)
      .flat()
      .map(async ({ pid }) => {
        const status = await readFile(`/proc/${pid}/status`, 'utf8')
        return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
      }),
  )
  return sizes.reduce((sum, size) => sum + size, 0)
}

function figuresOf(state: string, costs: Costs, empty?: Costs): Figure[] {
  const of = (kind: Kind, value: (cost: Cost) => number) => median(costs[kind].map(value))
  const bare: Figure = {
    name: `CPU, ${state}, without a key`,
    value: of('without a key', totalOf),
    unit: 'ms',
  }
  const first = empty && median(empty['without a key'].map(totalOf))
  const parts = [...new Set(costs['with a key'].flatMap(({ cpu }) => Object.keys(cpu)))]
  return [
    first === undefined
      ? bare
      : atMost(bare.name, bare.value, 'ms', { name: 'empty', value: first, unit: 'ms' }, 1.1),
    atMost(`CPU, ${state}, with a key`, of('with a key', totalOf), 'ms', bare, 1.1),
    ...parts.map((part): Figure => {
      const value = of('without a key', ({ cpu }) => cpu[part] ?? 0)
      const floor = { name: 'without a key', value, unit: 'ms' }
      return beside(
        `… ${part}`,
        of('with a key', ({ cpu }) => cpu[part] ?? 0),
        'ms',
        floor,
      )
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
        name: `memory of all services, ${state}, ${kind}`,
        value: of(kind, (cost) => cost.residentMiB),
        unit: 'MiB',
      },
    ]),
  ]
}
