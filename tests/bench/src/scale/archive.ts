import type { Sql } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import type { Stack } from '@licensing/test-support/stack-shape'
import { scaledSeconds } from '../bench-scale.ts'
import { issues } from '../calls.ts'
import { load } from '../load.ts'
import type { LoadOptions } from '../load.ts'
import { atMost, under } from '../report.ts'
import type { Figure } from '../report.ts'
import type { Population } from './population.ts'

/** Archive of a plan with very many active licences, and its effect on issues on another plan. */
export async function archive(
  stack: Stack,
  licensing: Sql,
  notifier: Sql,
  { archivePlan, emptyPlan }: Population,
): Promise<{ figures: Figure[]; notes: string[] }> {
  const [status, next] = issues(stack, emptyPlan)
  const issue = (options: LoadOptions) => load(stack.gatewayUrl, status, next, { connections: 8, ...options })
  await issue({ seconds: 1 })
  const idle = await issue({ seconds: scaledSeconds(10) })

  const before = await activeOn(licensing, archivePlan)
  const eventsBefore = await suspendedEvents(notifier)
  let done = false
  const startedMs = performance.now()
  const archiving = stack.api
    .post<{ suspended_licences: number }>(`/v1/apps/${stack.appId}/plans/${archivePlan}/archive`)
    .then((answer) => ({ answer, seconds: (performance.now() - startedMs) / 1000 }))
    .finally(() => {
      done = true
    })
  const meanwhile = await issue({ seconds: 0, until: () => done })
  const { answer, seconds } = await archiving
  if (answer.status !== 200) {
    throw new Error(`the archive was answered with ${answer.status}: ${JSON.stringify(answer.body)}`)
  }
  const suspended = answer.body.suspended_licences
  const events = () => suspendedEvents(notifier).then((count) => count - eventsBefore)
  await eventually(async () => (await events()) >= suspended, { timeoutMs: 300_000, intervalMs: 250 })
  const recordedSeconds = (performance.now() - startedMs) / 1000
  const idleP99: Figure = { name: 'issue p99, idle', value: idle.p99Ms, unit: 'ms' }
  return {
    figures: [
      under(`archive of ${before} active licences`, seconds, 's', 10),
      under('archive: licences missed or counted twice', Math.abs(suspended - before), 'licences', 0),
      under('archive: licences left active', await activeOn(licensing, archivePlan), 'licences', 0),
      under('archive: events missing or duplicated', Math.abs((await events()) - suspended), 'events', 0),
      { name: 'archive: until every event is recorded', value: recordedSeconds, unit: 's' },
      idleP99,
      atMost('issue p99 on another plan, meanwhile', meanwhile.p99Ms, 'ms', idleP99, 3),
    ],
    notes: [
      `issue on another plan: ${Math.round(idle.perSecond)}/s idle, ${Math.round(meanwhile.perSecond)}/s meanwhile; wrong answers ${idle.wrong + meanwhile.wrong}`,
    ],
  }
}

async function activeOn(sql: Sql, planId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from licences where plan_id = ${planId} and status = 'active'`
  return row!.count
}

async function suspendedEvents(notifier: Sql): Promise<number> {
  const [row] = await notifier<{ count: number }[]>`
    select count(*)::int as count from events where body like '%"type":"licence.suspended"%'`
  return row!.count
}
