import { freeAddress } from '@licensing/test-support/free-address'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { expect, test } from 'vitest'
import { queries, rules, rulesFile } from './queries.ts'

const hasPrometheus = (() => {
  try {
    execFileSync('prometheus', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
})()

interface Answer {
  status: string
  data: { result: { metric: Record<string, string> }[] }
}

/** Counters with labels, which have no series until the fault has happened that they count. */
const onlyAfterFaults =
  /events_dead_lettered_total|event_batches_lost_total|event_log_losses_total|events_filled_total|purchase_effects_lost_total|webhook_endpoints_disabled_total|notifier_alerts_total|code!="OK"|status=~"5\.\."/

test.skipIf(!hasPrometheus)(
  'a Prometheus that reads a running stack answers each query of the dashboards, evaluates each rule, and no alert fires',
  async () => {
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({ receiver, simulator: true })
    const { api, appId } = stack
    const app = `/v1/apps/${appId}`
    await api.post(`${app}/webhook-endpoints`, { body: { url: receiver.url(), subscribed_events: '*' } })
    const plan = await api.post<{ id: string }>(`${app}/plans`, { body: { name: 'Pro', code: 'pro' } })
    const work = async (n: number) => {
      const body = { external_ref: `customer-${n}`, plan_id: plan.body.id }
      const headers = { 'idempotency-key': `order-${n}` }
      const licence = await api.post<{ id: string }>(`${app}/licences`, { headers, body })
      const suspended = await api.post(`/v1/licences/${licence.body.id}/suspend`)
      const fees = await api.get('/v1/fees')
      expect([suspended.status, fees.status]).toEqual([200, 200])
    }

    await using folder = await makeTemporaryFolder()
    const config = {
      global: { scrape_interval: '1s', evaluation_interval: '1s' },
      rule_files: [fileURLToPath(rulesFile)],
      scrape_configs: Object.entries(stack.processes).map(([job, processes]) => ({
        job_name: job,
        static_configs: [{ targets: processes.map(({ environment }) => environment['METRICS_ADDRESS']) }],
      })),
    }
    const file = join(folder.path, 'prometheus.yaml')
    await writeFile(file, stringify(config))
    const address = await freeAddress()
    const prometheus = spawn(
      'prometheus',
      [`--config.file=${file}`, `--storage.tsdb.path=${folder.path}/data`, `--web.listen-address=${address}`],
      { stdio: 'ignore' },
    )
    try {
      const ask = async <Body>(path: string) =>
        (await (await fetch(`http://${address}${path}`)).json()) as Body
      const answerTo = (query: string) => ask<Answer>(`/api/v1/query?query=${encodeURIComponent(query)}`)
      const wanted = queries.filter(({ place }) => !rules.some(({ alert }) => alert === place))
      let done = 0
      await eventually(
        async () => {
          await work((done += 1))
          const unanswered = []
          for (const { place, query } of wanted) {
            const { status, data } = await answerTo(query)
            expect(status, query).toBe('success')
            if (data.result.length === 0 && !onlyAfterFaults.test(query))
              unanswered.push(`${place}: ${query}`)
          }
          expect(unanswered).toEqual([])
        },
        { timeoutMs: 60_000 },
      )
      type Rules = { data: { groups: { rules: { name: string; health: string; state?: string }[] }[] } }
      const evaluated = (await ask<Rules>('/api/v1/rules')).data.groups.flatMap((group) => group.rules)
      expect(evaluated).toHaveLength(rules.length)
      expect(evaluated.filter(({ health }) => health !== 'ok')).toEqual([])
      expect(evaluated.filter(({ state }) => state === 'firing')).toEqual([])
    } finally {
      const ended = once(prometheus, 'exit')
      prometheus.kill()
      await ended
    }
  },
  120_000,
)
