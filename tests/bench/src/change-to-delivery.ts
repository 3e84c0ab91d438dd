import { connect } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { Pool } from 'undici'
import { scaled } from './bench-scale.ts'
import { suspensions, usualCalls } from './calls.ts'
import type { Calls } from './calls.ts'
import { load, takingTurns } from './load.ts'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { startReceiver } from './notifier/start-receiver.ts'
import { startProfiling } from './profile.ts'
import { atMost, beside, under } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import type { Setting } from './setting.ts'
import type { Installation } from './vendor.ts'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'

const atOnce = 32
/** How often a single caller makes each kind of call. */
const turns = scaled(300, 10)

/** CPU time of each kind of call from the request to the last delivery, in total and for each process. */
export async function changeToDelivery(): Promise<Section> {
  await using folder = await makeTemporaryFolder()
  using receiver = await startReceiver(folder.path)
  await using setting = await startSetting({ receiver })
  const { stack } = setting
  const endProfiling = await startProfiling(stack, ['gateway', 'licensing'])
  const meter = startMeter(setting)
  const count = scaled(4_000, 60)
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const installations = await givenInstallations(stack, planId, 200)
  const { issue, refresh } = usualCalls(stack, { planId, licenceId: '', installations })
  const known = activations(
    200,
    installations.map(({ body }) => body),
  )
  const send = async ([status, next]: Calls, times: number): Promise<Sent> => {
    const { wrong, perSecond } = await load(stack.gatewayUrl, status, next, {
      connections: atOnce,
      count: times,
    })
    if (wrong > 0) throw new Error(`${wrong} answers were not ${status}`)
    return { count: times, perSecond }
  }
  const measured = (calls: Calls) => meter(() => send(calls, count))

  await send(issue, Math.ceil(count / 4))
  const costs = new Map<string, Cost>([['issue', await measured(issue)]])
  costs.set('refresh', await measured(refresh))
  costs.set('activation of a known machine', await measured(known))
  costs.set(
    'activation of a new machine',
    await measured(activations(201, await newMachines(stack, planId, count, 'gathered'))),
  )
  const alone = activations(201, await newMachines(stack, planId, turns + 1, 'alone'))
  const waits = await waitsOf(stack, { issue, refresh, 'known machine': known, 'new machine': alone })

  let endpoints = 0
  for (const wanted of [0, 1, 4]) {
    for (; endpoints < wanted; endpoints += 1) {
      const url = receiver.url(`/${endpoints}`)
      const made = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
        body: { url, subscribed_events: 'licence.suspended' },
      })
      if (made.status !== 201) throw new Error(`no endpoint: ${JSON.stringify(made.body)}`)
    }
    const ids = await givenLicences(stack, planId, count, `suspended-${wanted}`)
    costs.set(`suspend, ${wanted} endpoints`, await measured(suspensions(stack, ids)))
  }
  await endProfiling()
  const { figures, notes } = figuresOf(costs)
  return {
    title: 'CPU of a call until its events are delivered',
    figures: [...figures, ...waits],
    notes,
  }
}

/** Activations of these machines, one after the other. */
function activations(status: number, machines: Machine[]): Calls {
  const next = (n: number) => ({
    method: 'POST' as const,
    path: '/v1/activations',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(machines[n % machines.length]),
  })
  return [status, next]
}

type Machine = Installation['body']

/** Machines that are not activated, each with a licence of its own. */
async function newMachines(stack: Stack, planId: string, number: number, name: string): Promise<Machine[]> {
  const ids = await givenLicences(stack, planId, number, name)
  const sql = connect(stack.databaseUrls.licensing, { name: 'bench', max: 1 })
  const licences = await sql<{ key: string }[]>`select key from licences where id = any(${ids}::text[])`
  await sql.end()
  return licences.map(({ key }, at) => {
    const host = `${name}-${at}.example.com`
    return { licence_key: key, fingerprint: host, host, product_version: '1.0' }
  })
}

/** How long a single caller waits for each kind of call. */
async function waitsOf(stack: Stack, calls: Record<string, Calls>): Promise<Figure[]> {
  const pool = new Pool(stack.gatewayUrl, { connections: 1 })
  const kinds = Object.entries(calls).map(([name, [status, next]]) => {
    let n = 0
    const call = async () => {
      const answer = await pool.request(next(n++))
      await answer.body.dump()
      if (answer.statusCode !== status) throw new Error(`${name} was answered ${answer.statusCode}`)
    }
    return [name, call] as const
  })
  const waits = await takingTurns(new Map(kinds), turns)
  await pool.close()
  const floor: Figure = { name: 'issue, a single caller', value: waits.get('issue')!, unit: 'ms' }
  return [
    floor,
    atMost('refresh, a single caller', waits.get('refresh')!, 'ms', floor, 1.2),
    atMost('known machine, a single caller', waits.get('known machine')!, 'ms', floor, 1.2),
    // Its commit is followed by the record of its call.
    beside('new machine, a single caller', waits.get('new machine')!, 'ms', floor),
  ]
}

/** Milliseconds of CPU of one call, by process. */
interface Cost {
  byProcess: [name: string, ms: number][]
  perSecond: number
}

function figuresOf(costs: Map<string, Cost>): Pick<Section, 'figures' | 'notes'> {
  const cost = (name: string) => costs.get(name)!.byProcess.reduce((sum, [, ms]) => sum + ms, 0)
  const floor: Figure = { name: 'issue', value: cost('issue'), unit: 'ms' }
  const bare: Figure = {
    name: 'suspend, 0 endpoints',
    value: cost('suspend, 0 endpoints'),
    unit: 'ms',
  }
  const perDelivery = (cost('suspend, 4 endpoints') - cost('suspend, 0 endpoints')) / 4
  return {
    figures: [
      floor,
      under('refresh', cost('refresh'), 'ms', 0.8),
      under('activation of a known machine', cost('activation of a known machine'), 'ms', 0.8),
      under('activation of a new machine', cost('activation of a new machine'), 'ms', 1.3),
      atMost(bare.name, bare.value, 'ms', floor, 1.5),
      beside('suspend, 1 endpoint', cost('suspend, 1 endpoints'), 'ms', floor),
      beside('suspend, 4 endpoints', cost('suspend, 4 endpoints'), 'ms', floor),
      { name: '… each delivery adds', value: perDelivery, unit: 'ms' },
    ],
    notes: [...costs].map(([name, { perSecond, byProcess }]) => {
      const parts = byProcess.map(([process, ms]) => `${process} ${(ms * 1000).toFixed(0)}`)
      return `${name}: ${Math.round(perSecond)} calls a second; µs each: ${parts.join(', ')}`
    }),
  }
}

/** Runs calls and counts the CPU time of each process until all events have been delivered. */
function startMeter({ stack, postgresPid }: Setting): (calls: () => Promise<Sent>) => Promise<Cost> {
  const { gateway, catalog, licensing, notifier } = stack.processes
  const pids: [string, number][] = [
    ['gateway', gateway[0]!.pid],
    ['catalog', catalog[0]!.pid],
    ['licensing', licensing[0]!.pid],
    ['notifier', notifier[0]!.pid],
    ['PostgreSQL', postgresPid],
    ['NATS', stack.nats.pid],
  ]
  const read = () => Promise.all(pids.map(([, pid]) => cpuSeconds(pid)))
  return async (calls) => {
    const before = await read()
    const { count, perSecond } = await calls()
    await allDelivered(stack)
    const after = await read()
    const byProcess = pids.map(([name], at): [string, number] => [
      name,
      ((after[at]! - before[at]!) * 1000) / count,
    ])
    return { byProcess, perSecond }
  }
}

async function allDelivered({ databaseUrls }: Stack): Promise<void> {
  const licensing = connect(databaseUrls.licensing, { name: 'bench', max: 1 })
  const notifier = connect(databaseUrls.notifier, { name: 'bench', max: 1 })
  await eventually(
    async () => {
      const [outbox] = await licensing<{ waits: boolean }[]>`select exists (select from outbox) as waits`
      const [due] = await notifier<{ waits: boolean }[]>`
        select exists (select from deliveries where status = 'pending') as waits`
      if (outbox!.waits || due!.waits) throw new Error('some events are not delivered')
    },
    { timeoutMs: 120_000, intervalMs: 250 },
  )
  await Promise.all([licensing.end(), notifier.end()])
}

interface Sent {
  count: number
  perSecond: number
}
