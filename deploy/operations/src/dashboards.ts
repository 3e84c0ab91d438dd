import {
  LegendDisplayMode,
  LegendPlacement,
  VizLegendOptionsBuilder,
} from '@grafana/grafana-foundation-sdk/common'
import {
  DashboardBuilder,
  DatasourceVariableBuilder,
  RowBuilder,
} from '@grafana/grafana-foundation-sdk/dashboard'
import { DataqueryBuilder } from '@grafana/grafana-foundation-sdk/prometheus'
import { PanelBuilder } from '@grafana/grafana-foundation-sdk/timeseries'

type Unit = 's' | 'bytes' | 'reqps' | 'ops' | 'percentunit' | 'short'

interface Panel {
  title: string
  unit: Unit
  /** Queries by their legend, in which {{label}} is the value of a label. */
  queries: Record<string, string>
}

type Rows = Record<string, Panel[]>

const panel = (title: string, unit: Unit, queries: Record<string, string>): Panel => ({
  title,
  unit,
  queries,
})

/** The time that a share of the observations needs at most. `by` is the labels that the result keeps, `where` selects series. */
const quantile = (share: number, metric: string, by = '', where = '') =>
  `histogram_quantile(${share}, sum by (${['le', by].filter(Boolean).join(', ')}) (rate(${metric}_bucket{${where}}[5m])))`

const quantiles = (metric: string) => ({
  p50: quantile(0.5, metric),
  p99: quantile(0.99, metric),
})

const rpcs = (job: string): Panel[] => [
  panel('Calls', 'reqps', {
    '{{method}}': `sum by (method) (rate(grpc_server_duration_seconds_count{job="${job}"}[5m]))`,
  }),
  panel('Calls that are refused or fail', 'reqps', {
    '{{method}} {{code}}': `sum by (method, code) (rate(grpc_server_duration_seconds_count{job="${job}",code!="OK"}[5m]))`,
  }),
  panel('p99 of a call', 's', {
    '{{method}}': quantile(0.99, 'grpc_server_duration_seconds', 'method', `job="${job}"`),
  }),
]

const events = (job: string): Panel[] => [
  panel('Events published', 'ops', { published: `sum(rate(outbox_published_total{job="${job}"}[5m]))` }),
  panel('Age of the oldest event', 's', {
    'not published': `max(outbox_oldest_seconds{source="${job}"})`,
    'not confirmed': `max(event_log_unconfirmed_seconds{source="${job}"})`,
  }),
  panel('Event log', 'bytes', { size: `max(event_log_bytes{source="${job}"})` }),
  panel('Event log, share of EVENT_LOG_MAX_BYTES', 'percentunit', {
    used: `max(event_log_fill_ratio{source="${job}"})`,
  }),
]

const consumed = (job: string): Panel[] => [
  panel('Events consumed', 'ops', {
    '{{stream}}': `sum by (stream) (rate(events_consumed_total{job="${job}"}[5m]))`,
  }),
  panel('Batches behind', 'short', { '{{stream}}': `sum by (stream) (events_behind{job="${job}"})` }),
  panel('Dead letters, lost batches, batches read from PostgreSQL', 'short', {
    'dead letters': `sum(increase(events_dead_lettered_total{job="${job}"}[1h]))`,
    lost: `sum(increase(event_batches_lost_total{job="${job}"}[1h]))`,
    'read from PostgreSQL ({{cause}})': `sum by (cause) (increase(events_filled_total{job="${job}"}[1h]))`,
  }),
]

const processes = (job: string): Panel[] => [
  panel('Probes that fail', 'short', { '{{instance}} {{probe}}': `1 - process_ready{job="${job}"}` }),
  panel('CPU', 'short', { '{{instance}}': `rate(process_cpu_seconds_total{job="${job}"}[5m])` }),
  panel('Memory', 'bytes', { '{{instance}}': `process_resident_memory_bytes{job="${job}"}` }),
  panel('Delay of the event loop', 's', { '{{instance}}': `nodejs_eventloop_lag_seconds{job="${job}"}` }),
]

/** The rows of each dashboard, by the name of its file. */
export const dashboards: Record<string, Rows> = {
  overview: {
    Objectives: [
      panel('Share of bad requests, 1 hour', 'percentunit', { '{{objective}}': 'licensing:error_ratio:1h' }),
      panel('Error budget used, 3 days (1 is sustainable)', 'short', {
        '{{objective}}': 'licensing:error_ratio:3d / licensing:error_budget',
      }),
    ],
    'From request to webhook': [
      panel('Requests', 'reqps', {
        '{{status}}': 'sum by (status) (rate(http_server_duration_seconds_count[5m]))',
      }),
      panel('Time of a request', 's', quantiles('http_server_duration_seconds')),
      panel('Events published', 'ops', { '{{job}}': 'sum by (job) (rate(outbox_published_total[5m]))' }),
      panel('Age of the oldest event that is not published', 's', {
        '{{source}}': 'max by (source) (outbox_oldest_seconds)',
      }),
      panel('Webhook attempts', 'ops', { '{{class}}': 'sum by (class) (rate(webhook_attempts_total[5m]))' }),
      panel('Age of the oldest delivery that is due', 's', {
        '{{attempt}}': 'max by (attempt) (webhook_oldest_due_seconds)',
      }),
    ],
    Processes: [
      panel('Probes that fail', 'short', { '{{job}} {{probe}}': 'sum by (job, probe) (1 - process_ready)' }),
      panel('Processes', 'short', { '{{job}}': 'sum by (job) (up)' }),
      panel('CPU', 'short', { '{{job}}': 'sum by (job) (rate(process_cpu_seconds_total[5m]))' }),
      panel('Memory', 'bytes', { '{{job}}': 'sum by (job) (process_resident_memory_bytes)' }),
    ],
  },
  gateway: {
    Requests: [
      panel('Requests', 'reqps', {
        '{{method}} {{route}}': 'sum by (method, route) (rate(http_server_duration_seconds_count[5m]))',
      }),
      panel('Requests by status', 'reqps', {
        '{{status}}': 'sum by (status) (rate(http_server_duration_seconds_count[5m]))',
      }),
      panel('Time of a request', 's', quantiles('http_server_duration_seconds')),
      panel('p99 of a request', 's', {
        '{{method}} {{route}}': quantile(0.99, 'http_server_duration_seconds', 'method, route'),
      }),
      panel('Errors of the service', 'reqps', {
        '{{method}} {{route}} {{status}}':
          'sum by (method, route, status) (rate(http_server_duration_seconds_count{status=~"5.."}[5m]))',
      }),
    ],
    Processes: processes('gateway'),
  },
  catalog: {
    Calls: rpcs('catalog'),
    Events: events('catalog'),
    'Audit log': consumed('catalog'),
    Processes: processes('catalog'),
  },
  licensing: {
    Calls: rpcs('licensing'),
    Licences: [panel('Licences expired', 'ops', { expired: 'sum(rate(licences_expired_total[5m]))' })],
    Events: events('licensing'),
    'Plans of catalog': consumed('licensing'),
    Processes: processes('licensing'),
  },
  billing: {
    Payments: [
      panel('Waiting', 'short', {
        'events of the processor': 'max(processor_events_waiting)',
        'purchases to decide': 'max(purchases_due)',
        'effects to send': 'max(purchases_unsent)',
        'questions to the processor': 'max(processor_questions_waiting)',
      }),
      panel('Needs a person', 'short', {
        'events not understood': 'max(processor_events_dead_lettered)',
        'effects sent again ({{kind}})': 'sum by (kind) (increase(purchase_effects_lost_total[1h]))',
      }),
    ],
    Calls: rpcs('billing'),
    Events: events('billing'),
    Processes: processes('billing'),
  },
  notifier: {
    Deliveries: [
      panel('Attempts', 'ops', { '{{class}}': 'sum by (class) (rate(webhook_attempts_total[5m]))' }),
      panel('Age of the oldest delivery that is due', 's', {
        '{{attempt}}': 'max by (attempt) (webhook_oldest_due_seconds)',
      }),
      panel('From event to first attempt', 's', quantiles('webhook_first_attempt_delay_seconds')),
      panel('Time of an attempt', 's', quantiles('webhook_attempt_seconds')),
      panel('Deliveries in flight', 'short', {
        '{{of}}': 'sum by (of) (webhook_slots_busy)',
        claimed: 'sum(webhook_queued)',
      }),
      panel('Attempts written in one statement', 'short', quantiles('webhook_flush_rows')),
      panel('Leases that ended, attempts made twice', 'short', {
        'leases that ended': 'sum(increase(webhook_expired_leases_total[1h]))',
        'made twice': 'sum(increase(webhook_duplicate_attempts_total[1h]))',
      }),
    ],
    Endpoints: [
      panel('Disabled', 'short', {
        '{{reason}}': 'sum by (reason) (increase(webhook_endpoints_disabled_total[1h]))',
      }),
      panel('With secrets that cannot be decrypted', 'short', {
        endpoints: 'max(webhook_unreadable_secrets)',
      }),
      panel('Alerts to vendors', 'short', {
        '{{outcome}}': 'sum by (outcome) (increase(notifier_alerts_total[1h]))',
      }),
      panel('Partitions of events', 'short', {
        'days ahead': 'min(notifier_event_partitions_ahead_days)',
        overdue: 'max(notifier_event_partitions_overdue)',
      }),
    ],
    Calls: rpcs('notifier'),
    Events: events('notifier'),
    'Events of other services': consumed('notifier'),
    Processes: processes('notifier'),
  },
}

const prometheus = { type: 'prometheus', uid: '${datasource}' }

/** A dashboard in Grafana's format. */
export function dashboardOf(name: string, rows: Rows): object {
  const builder = new DashboardBuilder(`Licensing: ${name}`)
    .uid(`licensing-${name}`)
    .tags(['licensing'])
    .refresh('30s')
    .time({ from: 'now-6h', to: 'now' })
    .withVariable(new DatasourceVariableBuilder('datasource').type('prometheus'))
  const legend = new VizLegendOptionsBuilder()
    .showLegend(true)
    .displayMode(LegendDisplayMode.List)
    .placement(LegendPlacement.Bottom)
  let id = 0
  for (const [row, panels] of Object.entries(rows)) {
    builder.withRow(new RowBuilder(row).id((id += 1)))
    for (const { title, unit, queries } of panels) {
      const made = new PanelBuilder()
        .id((id += 1))
        .title(title)
        .unit(unit)
        .min(0)
        .legend(legend)
      made.span(8).height(8).datasource(prometheus)
      for (const [at, [text, query]] of Object.entries(queries).entries())
        made.withTarget(new DataqueryBuilder().refId('ABCD'.charAt(at)).expr(query).legendFormat(text))
      builder.withPanel(made)
    }
  }
  return builder.build()
}
