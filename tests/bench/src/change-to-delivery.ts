import { connect } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { scaled } from './bench-scale.ts'
import { suspensions, usualCalls } from './calls.ts'
import type { Calls } from './calls.ts'
import { load } from './load.ts'
import { cpuSeconds } from './notifier/cpu-time.ts'
import { startReceiver } from './notifier/start-receiver.ts'
import { startProfiling } from './profile.ts'
import { atMost, beside } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import type { Setting } from './setting.ts'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'

const atOnce = 32

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
  const activation: Calls = [
    200,
    (n) => ({
      method: 'POST',
      path: '/v1/activations',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(installations[n % installations.length]!.body),
    }),
  ]
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
  costs.set('activation of a known machine', await measured(activation))

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
  return { title: 'CPU of a call until its events are delivered', ...figuresOf(costs) }
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
      atMost('refresh', cost('refresh'), 'ms', floor, 0.6),
      atMost('activation of a known machine', cost('activation of a known machine'), 'ms', floor, 0.6),
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
