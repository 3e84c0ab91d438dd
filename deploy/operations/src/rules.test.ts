import { CHECKOUT } from '@licensing/local-servers/services'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { rules, rulesFile } from './queries.ts'

const run = promisify(execFile)
const hasPromtool = await run('promtool', ['--version']).then(
  () => true,
  () => false,
)
const alerts = [...new Set(rules.flatMap(({ alert }) => alert ?? []))]

/** Values of series in the notation of promtool, a value a minute or for each `step` minutes: `1+2x3` is 1, 3, 5, 7. */
type Series = Record<string, string>

/** For each alert, series for which only it fires after so many minutes, and similar series for which nothing fires. */
const cases: Record<string, { minutes: number; step?: number; fires: Series; silent: Series }> = {
  ProcessDown: {
    minutes: 5,
    fires: { 'up{job="gateway"}': '0x5' },
    silent: { 'up{job="gateway"}': '1 0 1 1 0 1' },
  },
  ProcessNotReady: {
    minutes: 5,
    fires: { 'process_ready{job="billing",probe="database"}': '0x5' },
    silent: { 'process_ready{job="billing",probe="database"}': '1 0 1 1 0 1' },
  },
  EventsNotPublished: {
    minutes: 5,
    fires: { 'outbox_oldest_seconds{source="licensing"}': '0 60 120 180 240 300' },
    silent: { 'outbox_oldest_seconds{source="licensing"}': '0 25 5 40 2 29' },
  },
  EventsUnconfirmed: {
    minutes: 5,
    fires: { 'event_log_unconfirmed_seconds{source="billing"}': '3700+60x5' },
    silent: { 'event_log_unconfirmed_seconds{source="billing"}': '3000+60x5' },
  },
  EventLogHalfFull: {
    minutes: 5,
    fires: { 'event_log_fill_ratio{source="billing"}': '0.51x5' },
    silent: { 'event_log_fill_ratio{source="billing"}': '0.5x5' },
  },
  EventLogGrows: {
    minutes: 3_600,
    step: 30,
    fires: { 'event_log_bytes{source="licensing"}': '2000000000+30000000x120' },
    // Each day's events are removed on the next day.
    silent: {
      'event_log_bytes{source="licensing"}':
        '2000000000+30000000x48 2000000000+30000000x48 2000000000+30000000x24',
    },
  },
  RelayIdle: {
    minutes: 20,
    fires: {
      'outbox_published_total{job="licensing"}': '50x20',
      'http_server_duration_seconds_count{route="/v1/licences/{licence_id}/suspend",status="200"}': '0+10x20',
    },
    silent: {
      'outbox_published_total{job="licensing"}': '50x20',
      'http_server_duration_seconds_count{route="/v1/licences/{licence_id}",status="200"}': '0+10x20',
    },
  },
  EventsDeadLettered: {
    minutes: 66,
    fires: { 'events_dead_lettered_total{job="notifier",source="licensing"}': '_x61 1x5' },
    silent: { 'events_dead_lettered_total{job="notifier",source="licensing"}': '1x90' },
  },
  EventBatchesLost: {
    minutes: 66,
    fires: { 'event_batches_lost_total{job="notifier",stream="LICENSING_EVENTS"}': '0x61 1x5' },
    silent: { 'event_batches_lost_total{job="notifier",stream="LICENSING_EVENTS"}': '0x90' },
  },
  EventLogRestored: {
    minutes: 66,
    fires: { 'event_log_losses_total{source="licensing"}': '_x61 1x5' },
    silent: { 'event_log_losses_total{source="licensing"}': '0x90' },
  },
  EventsFilled: {
    minutes: 60,
    fires: { 'events_filled_total{job="notifier",cause="gap"}': '0+1x60' },
    // A NATS server was replaced.
    silent: { 'events_filled_total{job="notifier",cause="gap"}': '0x30 0+10x5 50x25' },
  },
  WebhooksWait: {
    minutes: 5,
    fires: { 'webhook_oldest_due_seconds{attempt="first"}': '40x5' },
    silent: {
      'webhook_oldest_due_seconds{attempt="first"}': '20x5',
      'webhook_oldest_due_seconds{attempt="later"}': '90x5',
    },
  },
  WebhookAttemptsFail: {
    minutes: 30,
    fires: {
      'webhook_attempts_total{class="delivered",attempt="first"}': '0+4x30',
      'webhook_attempts_total{class="dns",attempt="first"}': '0+5x30',
    },
    silent: {
      'webhook_attempts_total{class="delivered",attempt="first"}': '0+5x30',
      'webhook_attempts_total{class="dns",attempt="first"}': '0+4x30',
    },
  },
  WebhookLeasesExpire: {
    minutes: 30,
    fires: { webhook_expired_leases_total: '0+1x30' },
    // One process was killed.
    silent: { webhook_expired_leases_total: '0x10 40x20' },
  },
  WebhookSecretsUnreadable: {
    minutes: 5,
    fires: { webhook_unreadable_secrets: '1x5' },
    silent: { webhook_unreadable_secrets: '0x5' },
  },
  WebhookEndpointsDisabled: {
    minutes: 66,
    fires: { 'webhook_endpoints_disabled_total{reason="failures"}': '2x60 20x6' },
    silent: { 'webhook_endpoints_disabled_total{reason="failures"}': '20x60 22x6' },
  },
  EventPartitionsMissing: {
    minutes: 66,
    fires: { notifier_event_partitions_ahead_days: '13x90' },
    silent: { notifier_event_partitions_ahead_days: '14x90' },
  },
  EventPartitionsOverdue: {
    minutes: 66,
    fires: { notifier_event_partitions_overdue: '1x90' },
    silent: { notifier_event_partitions_overdue: '1x20 0x70' },
  },
  ProcessorEventsWait: {
    minutes: 40,
    fires: { processor_events_waiting: '1+2x40' },
    silent: { processor_events_waiting: '5-1x5 0x5 5-1x5 0x25', purchases_due: '0+2x40' },
  },
  PurchasesUnsent: {
    minutes: 40,
    fires: { purchases_unsent: '1+2x40' },
    silent: { purchases_unsent: '90-2x40' },
  },
  PurchaseEffectsLost: {
    minutes: 66,
    fires: { 'purchase_effects_lost_total{kind="payment"}': '_x60 3x6' },
    silent: { 'purchase_effects_lost_total{kind="payment"}': '3x90' },
  },
  ProcessorSilent: {
    minutes: 40,
    fires: { processor_questions_waiting: '1+1x40' },
    silent: { processor_questions_waiting: '3x40' },
  },
  ProcessorEventsDeadLettered: {
    minutes: 5,
    fires: { processor_events_dead_lettered: '1x5' },
    silent: { processor_events_dead_lettered: '0x5' },
  },
  ProcessorUnavailable: {
    minutes: 30,
    fires: {
      'http_server_duration_seconds_count{method="PUT",route="/v1/processor",status="503"}': '_x25 1x5',
    },
    silent: {
      'http_server_duration_seconds_count{method="PUT",route="/v1/processor",status="409"}': '_x25 1x5',
    },
  },
  InternalErrors: {
    minutes: 30,
    fires: {
      'grpc_server_duration_seconds_count{job="catalog",method="GetPlan",code="INTERNAL"}': '_x25 1x5',
    },
    silent: {
      'grpc_server_duration_seconds_count{job="catalog",method="GetPlan",code="NOT_FOUND"}': '_x25 1x5',
    },
  },
  AlertMailsFail: {
    minutes: 60,
    fires: { 'notifier_alerts_total{outcome="failed"}': '_x50 1x10' },
    silent: {
      'notifier_alerts_total{outcome="failed"}': '1x60',
      'notifier_alerts_total{outcome="sent"}': '0+1x60',
    },
  },
  CallsRefused: {
    minutes: 30,
    fires: { 'grpc_refused_callers_total{job="licensing"}': '0x25 1x5' },
    silent: { 'grpc_refused_callers_total{job="licensing"}': '0x30' },
  },
  ClockWrong: {
    minutes: 5,
    fires: { 'clock_offset_seconds{job="notifier",instance="a"}': '-3600x5' },
    silent: { 'clock_offset_seconds{job="notifier",instance="a"}': '-3600 4 0.01 -4 0 0' },
  },
  ErrorBudgetBurnsFast: {
    minutes: 45,
    fires: {
      'http_server_duration_seconds_count{status="200"}': '0+980x45',
      'http_server_duration_seconds_count{status="503"}': '0+20x45',
      'http_server_duration_seconds_bucket{le="0.25"}': '0+1000x45',
    },
    // The errors have ended 35 minutes ago.
    silent: {
      'http_server_duration_seconds_count{status="200"}': '0+980x45',
      'http_server_duration_seconds_count{status="503"}': '0+20x10 200x35',
      'http_server_duration_seconds_bucket{le="0.25"}': '0+1000x45',
    },
  },
  ErrorBudgetBurnsSlowly: {
    minutes: 100,
    fires: {
      webhook_first_attempt_delay_seconds_count: '0+1000x100',
      'webhook_first_attempt_delay_seconds_bucket{le="30"}': '0+998x100',
    },
    silent: {
      webhook_first_attempt_delay_seconds_count: '0+10000x100',
      'webhook_first_attempt_delay_seconds_bucket{le="30"}': '0+9991x100',
    },
  },
}

/** The alerts that fire at the end of series. */
const firing = 'count by (alertname) (ALERTS{alertstate="firing"})'

test.skipIf(!hasPromtool)(
  'each rule fires on a series that means it, and not on one that does not',
  async () => {
    expect(Object.keys(cases)).toEqual(alerts)
    await using folder = await makeTemporaryFolder()
    const steps = new Set(Object.values(cases).map(({ step = 1 }) => step))
    const files = [...steps].map(async (every) => {
      const tests = Object.entries(cases)
        .filter(([, { step = 1 }]) => step === every)
        .flatMap(([alertname, { minutes, fires, silent }]) =>
          [fires, silent].map((series) => ({
            name: `${alertname} ${series === fires ? 'fires' : 'does not fire'}`,
            interval: `${every}m`,
            input_series: Object.entries(series).map(([name, values]) => ({ series: name, values })),
            promql_expr_test: [
              {
                expr: firing,
                eval_time: `${minutes}m`,
                exp_samples: series === fires ? [{ labels: `{alertname="${alertname}"}`, value: 1 }] : [],
              },
            ],
          })),
        )
      const file = join(folder.path, `every-${every}.json`)
      const all = { rule_files: [fileURLToPath(rulesFile)], evaluation_interval: `${every}m`, tests }
      await writeFile(file, JSON.stringify(all))
      return file
    })
    const problems = await run('promtool', ['test', 'rules', ...(await Promise.all(files))]).then(
      () => '',
      ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
    )
    expect(problems).toBe('')
  },
)

test('the runbook and the rules name the same alerts in the same order', async () => {
  const text = await readFile(join(CHECKOUT, 'docs/operations/runbook.md'), 'utf8')
  const section = text.split(/^## /m).find((part) => part.startsWith('Alerts'))
  const named = [...section!.matchAll(/^\| `([A-Za-z]+)` /gm)].map(([, name]) => name)
  expect(named).toEqual(alerts)
})

test('the page of objectives has the targets of the rules', async () => {
  const text = await readFile(join(CHECKOUT, 'docs/operations/monitoring.md'), 'utf8')
  const named = [...text.matchAll(/^\| `([a-z-]+)` .*\| ([\d.]+) % +\|$/gm)].map(
    ([, name, target]) => `${name} ${target}`,
  )
  const budgets = rules
    .filter(({ record }) => record === 'licensing:error_budget')
    .map(({ labels, expr }) => `${labels!['objective']} ${100 - 100 * Number(/[\d.]+/.exec(expr))}`)
  expect(budgets).toHaveLength(3)
  expect(named).toEqual(budgets)
})

test.skipIf(!hasPromtool)('the configuration for a Prometheus without Kubernetes is valid', async () => {
  const config = fileURLToPath(new URL('../prometheus.yaml', import.meta.url))
  expect((await run('promtool', ['check', 'config', config])).stdout).toContain('rules found')
})
