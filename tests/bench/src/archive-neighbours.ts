import type { Stack } from '@licensing/test-support/stack-shape'
import { execFile } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { scaled, scaledSeconds } from './bench-scale.ts'
import { load } from './load.ts'
import type { LoadOptions } from './load.ts'
import { atMost, under } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'
import { givenLicences, givenPlan } from './vendor.ts'

const verbsPerSecond = 20
const connections = 4

/** How much the archive of a large plan, and the verbs that wait for it, slow another account. */
export async function archiveNeighbours(): Promise<Section> {
  await using setting = await startSetting()
  const { stack } = setting
  const planId = await givenPlan(stack, 'large')
  const licences = await givenLicences(stack, planId, scaled(100_000, 2_000), 'large')
  const neighbour = await givenNeighbour(stack)
  const detail = (options: LoadOptions) =>
    load(stack.gatewayUrl, 200, () => ({ method: 'GET', ...neighbour }), { connections, ...options })
  await detail({ seconds: 1 })
  const idle = await detail({ seconds: scaledSeconds(10) })

  const startedMs = performance.now()
  const progress = { isDone: false }
  const archiving = stack.api
    .post<{ suspended_licences: number }>(`/v1/apps/${stack.appId}/plans/${planId}/archive`)
    .finally(() => (progress.isDone = true))
  const [meanwhile, verbs, notReady, archived] = await Promise.all([
    detail({ seconds: 0, until: () => progress.isDone }),
    callVerbs(stack, licences, progress),
    watchReadiness(stack, progress),
    archiving,
  ])
  const seconds = (performance.now() - startedMs) / 1000
  if (archived.status !== 200) throw new Error(`the archive was answered with ${archived.status}`)
  const p99: Figure = { name: 'detail of another account, p99, idle', value: idle.p99Ms, unit: 'ms' }
  return {
    title: `An account beside the archive of ${licences.length.toLocaleString('en')} licences with ${verbsPerSecond} verbs a second on them`,
    figures: [
      p99,
      atMost('detail of another account, p99, meanwhile', meanwhile.p99Ms, 'ms', p99, 2),
      { name: 'detail of another account, p50, idle', value: idle.p50Ms, unit: 'ms' },
      { name: 'detail of another account, p50, meanwhile', value: meanwhile.p50Ms, unit: 'ms' },
      under('details not answered 200', idle.wrong + meanwhile.wrong, '', 0),
      under('failed readiness checks', notReady, '', 0),
      { name: 'archive', value: seconds, unit: 's' },
    ],
    notes: [
      `${connections} connections read the detail; verbs: ${verbs.map(([status, count]) => `${count} × ${status}`).join(', ')}`,
      `suspended by the archive: ${archived.body.suspended_licences.toLocaleString('en')}`,
    ],
  }
}

/** Another account with a licence, and the request that reads it. */
async function givenNeighbour({ gatewayUrl, processes }: Stack) {
  const admin = fileURLToPath(new URL('../../../deploy/admin/src/licensing-admin.ts', import.meta.url))
  const { environment } = processes.catalog[0]!
  const args = [admin, 'create-account', '--name', 'Neighbour']
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: environment })
  const { app_id: appId, key } = JSON.parse(stdout) as { app_id: string; key: string }
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const post = async (path: string, body: object, more: Record<string, string> = {}) => {
    const request = { method: 'POST', headers: { ...headers, ...more }, body: JSON.stringify(body) }
    const answer = await fetch(`${gatewayUrl}/v1/apps/${appId}/${path}`, request)
    if (answer.status !== 201) throw new Error(`${path} was answered ${answer.status}`)
    return (await answer.json()) as { id: string }
  }
  const plan = await post('plans', { name: 'Pro', code: 'pro' })
  const body = { external_ref: 'customer', plan_id: plan.id }
  const licence = await post('licences', body, { 'idempotency-key': 'neighbour' })
  return { path: `/v1/licences/${licence.id}`, headers }
}

/** Suspends one licence after the other until the archive is done. @returns how many were answered with each status */
async function callVerbs(
  { api }: Stack,
  licences: string[],
  progress: { isDone: boolean },
): Promise<[number, number][]> {
  const calls: Promise<{ status: number }>[] = []
  for (let at = 0; !progress.isDone; at += 1) {
    // Spread over the whole plan, so that the archive has already locked some of the licences and not others.
    const id = licences[(at * 7_919) % licences.length]!
    calls.push(api.post(`/v1/licences/${id}/suspend`))
    await pause(1000 / verbsPerSecond)
  }
  const counts = new Map<number, number>()
  for (const { status } of await Promise.all(calls)) counts.set(status, (counts.get(status) ?? 0) + 1)
  return [...counts]
}

/** @returns how often licensing was not ready */
async function watchReadiness({ processes }: Stack, progress: { isDone: boolean }): Promise<number> {
  let notReady = 0
  while (!progress.isDone) {
    const { status } = await fetch(`${processes.licensing[0]!.operationsUrl}/readyz`)
    if (status !== 200) notReady += 1
    await pause(100)
  }
  return notReady
}
