import { connect } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { Stack } from '@licensing/test-support/stack-shape'
import { Pool } from 'undici'
import { scaled, scaledSeconds } from '../bench-scale.ts'
import { suspensions } from '../calls.ts'
import { atPace, load } from '../load.ts'
import { quantile } from '../report.ts'
import type { Figure } from '../report.ts'
import { startSetting } from '../setting.ts'
import { givenDefinitions, givenLicences, givenPlan, withKey } from '../vendor.ts'
import { machineMs } from './machine-clock.ts'
import { startReceiver } from './start-receiver.ts'
import type { Receiver } from './start-receiver.ts'

/** Time from the answer to a suspend to the event's arrival at the vendor, idle and at half of the highest rate of suspends. */
export async function latency(): Promise<Figure[]> {
  await using folder = await makeTemporaryFolder()
  using receiver = await startReceiver(folder.path)
  await using setting = await startSetting({ receiver })
  const { stack } = setting
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const endpoint = await stack.api.post(`/v1/apps/${stack.appId}/webhook-endpoints`, {
    body: { url: receiver.url('/latency'), subscribed_events: '*' },
  })
  if (endpoint.status !== 201) throw new Error(`no endpoint: ${JSON.stringify(endpoint.body)}`)

  const idlePace = 20
  const idle = await givenLicences(stack, planId, scaled(400, 20), 'idle')
  const idleWaits = await waits(stack, receiver, idle, idlePace)

  const seconds = scaledSeconds(8)
  const max = await maxPerSecond(stack, planId, seconds)
  const half = await givenLicences(stack, planId, Math.ceil((max / 2) * seconds), 'half')
  const halfWaits = await waits(stack, receiver, half, max / 2)
  const figures = (name: string, values: number[]): Figure[] => [
    { name: `answer to arrival, ${name}, p50`, value: quantile(values, 0.5), unit: 'ms' },
    { name: `answer to arrival, ${name}, p99`, value: quantile(values, 0.99), unit: 'ms' },
  ]
  return [
    ...figures(`idle (${idlePace}/s)`, idleWaits),
    { name: 'most suspends, closed loop', value: max, unit: '/s' },
    ...figures(`half load (${Math.round(max / 2)}/s)`, halfWaits),
  ]
}

async function maxPerSecond(stack: Stack, planId: string, seconds: number): Promise<number> {
  const ids = await givenLicences(stack, planId, 2_000, 'most')
  const [status, next] = suspensions(stack, ids)
  const { perSecond } = await load(stack.gatewayUrl, status, next, { connections: 32, seconds })
  return perSecond
}

/** Suspends each licence at this pace. @returns milliseconds from each answer to the arrival */
async function waits(
  stack: Stack,
  receiver: Receiver,
  licenceIds: string[],
  perSecond: number,
): Promise<number[]> {
  const pool = new Pool(stack.gatewayUrl, { connections: 64, pipelining: 1 })
  const answeredAt = new Map<string, number>()
  const headers = withKey(stack)
  const suspend = async (id: string) => {
    const answer = await pool.request({ method: 'POST', path: `/v1/licences/${id}/suspend`, headers })
    await answer.body.dump()
    if (answer.statusCode !== 200) throw new Error(`suspend was answered ${answer.statusCode}`)
    answeredAt.set(id, machineMs())
  }
  await atPace(perSecond, licenceIds.length, (n) => suspend(licenceIds[n]!))
  await pool.close()
  const sql = connect(stack.databaseUrls.notifier, { name: 'bench', max: 1 })
  const found = await eventually(
    async () => {
      const events = await sql<{ id: string; licence: string }[]>`
        select id, body::json -> 'data' -> 'object' ->> 'licence_id' as licence from events
        where body like '%"type":"licence.suspended"%'`
      const arrivals = await receiver.arrivals()
      const wanted = events.filter(({ licence }) => answeredAt.has(licence))
      if (wanted.length < licenceIds.length || wanted.some(({ id }) => !arrivals.has(id))) {
        throw new Error('not every event has arrived')
      }
      return wanted.map(({ id, licence }) => arrivals.get(id)! - answeredAt.get(licence)!)
    },
    { timeoutMs: 120_000, intervalMs: 250 },
  )
  await sql.end()
  return found
}
