import type { Stack } from '@licensing/test-support/stack-shape'
import { Pool } from 'undici'
import { scaledSeconds } from './bench-scale.ts'
import { suspensions, usualCalls } from './calls.ts'
import type { Calls } from './calls.ts'
import { atPace, load } from './load.ts'
import { atMost, quantile } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'

const atOnce = 32
const seconds = scaledSeconds(6)

/** p99 compared with p50 of the most frequent calls at half of their highest rate. */
export async function tails(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const [licenceId = '', ...suspended] = await givenLicences(stack, planId, 2_001, 'licence')
  const installations = await givenInstallations(stack, planId, 200)
  const kinds: Record<string, Calls> = {
    ...usualCalls(stack, { planId, licenceId, installations }),
    suspend: suspensions(stack, suspended),
  }
  const figures: Figure[] = []
  for (const [name, [status, next]] of Object.entries(kinds)) {
    let sent = 0
    const counted = () => next(sent++)
    const closed = { connections: atOnce, seconds: seconds / 2 }
    // The first run only warms up the services.
    await load(stack.gatewayUrl, status, counted, closed)
    const { perSecond: max } = await load(stack.gatewayUrl, status, counted, closed)
    const times = await timesAtPace(stack, [status, counted], max / 2)
    const p50: Figure = { name: `${name} p50`, value: quantile(times, 0.5), unit: 'ms' }
    figures.push(p50, atMost(`${name} p99`, quantile(times, 0.99), 'ms', p50, 4))
  }
  return { title: 'Tails at half of the highest rate', figures, notes: [] }
}

/** @returns the time of each call in milliseconds */
async function timesAtPace(stack: Stack, [status, next]: Calls, perSecond: number): Promise<number[]> {
  const pool = new Pool(stack.gatewayUrl, { connections: 2 * atOnce, pipelining: 1 })
  const times: number[] = []
  await atPace(perSecond, Math.ceil(perSecond * seconds), async (n) => {
    const startedMs = performance.now()
    const { body, statusCode } = await pool.request(next(n))
    await body.dump()
    times.push(performance.now() - startedMs)
    if (statusCode !== status) throw new Error(`the answer was ${statusCode}, not ${status}`)
  })
  await pool.close()
  return times
}
