import { readFile } from 'node:fs/promises'
import type { Stack } from '@licensing/test-support/stack-shape'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { Pool } from 'undici'
import { scaledSeconds } from './bench-scale.ts'
import { suspensions, usualCalls } from './calls.ts'
import type { Calls } from './calls.ts'
import { atPace, load } from './load.ts'
import { machineMs } from './notifier/machine-clock.ts'
import { atMost, quantile } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenDefinitions, givenInstallations, givenLicences, givenPlan } from './vendor.ts'

const atOnce = 32
const seconds = scaledSeconds(6)
const maxTimesMedian = 4

/** p99 compared with p50 of the most frequent calls at half of their highest rate, and the pauses of garbage collection. */
export async function tails(): Promise<Section> {
  await using folder = await makeTemporaryFolder()
  await using setting = await startSetting()
  const { stack } = setting
  await givenDefinitions(stack)
  const planId = await givenPlan(stack, 'pro')
  const [licenceId = '', ...suspended] = await givenLicences(stack, planId, 2_001, 'licence')
  const installations = await givenInstallations(stack, planId, 200)
  const readPauses = await watchCollections(stack, folder.path)
  const kinds: Record<string, Calls> = {
    ...usualCalls(stack, { planId, licenceId, installations }),
    suspend: suspensions(stack, suspended),
  }
  const figures: Figure[] = []
  const notes: string[] = []
  for (const [name, calls] of Object.entries(kinds)) {
    let sent = 0
    const [status, next] = calls
    const counted = () => next(sent++)
    const closed = { connections: atOnce, seconds: seconds / 2 }
    // The first run only warms up the services.
    await load(stack.gatewayUrl, status, counted, closed)
    const { perSecond: max } = await load(stack.gatewayUrl, status, counted, closed)
    const beganMs = machineMs()
    const answers = await answersAtPace(stack, [status, counted], max / 2)
    const pauses = (await readPauses()).filter(({ startMs }) => startMs >= beganMs)
    const times = answers.map(({ ms }) => ms)
    const p50: Figure = { name: `${name} p50`, value: quantile(times, 0.5), unit: 'ms' }
    figures.push(p50, atMost(`${name} p99`, quantile(times, 0.99), 'ms', p50, maxTimesMedian))
    notes.push(`${name}, ${Math.round(max / 2)} a second: ${shareOfPauses(answers, p50.value, pauses)}`)
  }
  return { title: 'Tails at half of the highest rate', figures, notes }
}

interface Answered {
  startMs: number
  ms: number
}

interface Pause extends Answered {
  service: string
  kind: string
}

async function answersAtPace(stack: Stack, [status, next]: Calls, perSecond: number): Promise<Answered[]> {
  const pool = new Pool(stack.gatewayUrl, { connections: 2 * atOnce, pipelining: 1 })
  const answers: Answered[] = []
  await atPace(perSecond, Math.ceil(perSecond * seconds), async (n) => {
    const startMs = machineMs()
    const { body, statusCode } = await pool.request(next(n))
    await body.dump()
    answers.push({ startMs, ms: machineMs() - startMs })
    if (statusCode !== status) throw new Error(`the answer was ${statusCode}, not ${status}`)
  })
  await pool.close()
  return answers
}

/** Restarts gateway and licensing with a log of garbage collection. @returns a function that reads the pauses so far */
async function watchCollections(stack: Stack, folder: string): Promise<() => Promise<Pause[]>> {
  const watched = [...stack.processes.gateway, ...stack.processes.licensing]
  const observer = new URL('gc-pauses.ts', import.meta.url).pathname
  for (const service of watched) {
    await service.start({ NODE_OPTIONS: `--import ${observer}`, GC_PAUSES: folder })
  }
  return async () => {
    const each = watched.map(async ({ name, pid }) => {
      const lines = (await readFile(`${folder}/${pid}`, 'utf8')).split('\n').filter((line) => line !== '')
      return lines.map((line): Pause => ({ ...(JSON.parse(line) as Omit<Pause, 'service'>), service: name }))
    })
    return (await Promise.all(each)).flat()
  }
}

/** How many of the slow answers overlap with a pause, and the pauses by service and kind. */
function shareOfPauses(answers: Answered[], p50Ms: number, pauses: Pause[]): string {
  const slow = answers.filter(({ ms }) => ms > maxTimesMedian * p50Ms)
  // A pause that is shorter than the median does not make an answer slow.
  const long = pauses.filter(({ ms }) => ms >= p50Ms)
  const met = slow.filter((answer) => long.some((pause) => overlaps(answer, pause)))
  const kinds = [...Map.groupBy(pauses, ({ service, kind }) => `${service} ${kind}`)].map(([name, those]) => {
    const lengths = those.map(({ ms }) => ms)
    const sum = lengths.reduce((total, ms) => total + ms, 0)
    return `${name} ${those.length} (${sum.toFixed(0)} ms in all, longest ${Math.max(...lengths).toFixed(1)})`
  })
  const share = ((slow.length / answers.length) * 100).toFixed(1)
  return (
    `${share} % took more than ${maxTimesMedian} × p50, ${met.length} of these ${slow.length} beside a pause of p50 or ` +
    `longer; pauses: ${kinds.join(', ') || 'none'}`
  )
}

function overlaps(a: Answered, b: Answered): boolean {
  return a.startMs < b.startMs + b.ms && b.startMs < a.startMs + a.ms
}
