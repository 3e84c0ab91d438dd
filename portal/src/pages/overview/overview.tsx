import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { metricQuery, type Day, alertsQuery, type Alert } from '../../api/overview.ts'
import { Figure, type Series, type FigureState } from '../../parts/figure.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { count, money, Time, words } from '../../parts/text.tsx'
import { GettingStarted, useSteps } from './getting-started.tsx'
import styles from './overview.module.css'

export function Route() {
  return (
    <Page title="Overview" needs={['read']}>
      <Overview />
    </Page>
  )
}

function Overview() {
  const { appId } = useApplication()
  const licences = useQuery(metricQuery(appId, 'licences'))
  const payments = useQuery(metricQuery(appId, 'payments'))
  const deliveries = useQuery(metricQuery(appId, 'deliveries'))
  const { steps, isKnown } = useSteps(appId)
  // The steps stand above the figures: those that come later would push them down.
  if (!isKnown) return null
  return (
    <>
      <GettingStarted steps={steps} />
      <ReadProblem of={[licences, payments, deliveries]} />
      <div className={styles.figures}>
        <Licences days={licences.data ?? []} state={stateOf(licences)} />
        <Revenue days={payments.data ?? []} state={stateOf(payments)} />
        <Deliveries days={deliveries.data ?? []} state={stateOf(deliveries)} />
      </div>
      <Alerts />
    </>
  )
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
const last30 = 'in the last 30 days'

interface MetricProps<Metric extends 'licences' | 'payments' | 'deliveries'> {
  days: readonly Day<Metric>[]
  state: FigureState
}

function stateOf({ data, isError }: { data: unknown; isError: boolean }): FigureState {
  if (data !== undefined) return 'known'
  return isError ? 'failed' : 'loading'
}

function Licences({ days, state }: MetricProps<'licences'>) {
  const at = days.map((day) => day.at)
  const of = (pick: (values: Day<'licences'>['values']) => number) => days.map(({ values }) => pick(values))
  const active = of((values) => values.active)
  const fresh = of(({ issued, imported, created }) => issued + imported + created)
  return (
    <>
      <Figure
        title="Active licences"
        state={state}
        kind="line"
        figure={count(active.at(-1) ?? 0)}
        note={change(active)}
        at={at}
        series={[{ name: 'active', values: active }]}
      />
      <Figure
        title="New licences"
        state={state}
        kind="bars"
        figure={count(sum(fresh))}
        note={last30}
        at={at}
        series={[{ name: 'new', values: fresh }]}
        more={[
          { name: 'issued', values: of(({ issued }) => issued) },
          { name: 'imported', values: of(({ imported }) => imported) },
          { name: 'created by payments', values: of(({ created }) => created) },
        ]}
      />
    </>
  )
}

function change(active: readonly number[]): string {
  const by = (active.at(-1) ?? 0) - (active[0] ?? 0)
  if (by === 0) return `same as 30 days ago`
  return `${count(Math.abs(by))} ${by > 0 ? 'more' : 'fewer'} than 30 days ago`
}

function Revenue({ days, state }: MetricProps<'payments'>) {
  const currencies = [...new Set(days.flatMap(({ values }) => Object.keys(values)))].sort()
  const series = currencies.map((currency): Series => ({
    name: currency.toUpperCase(),
    values: days.map(({ values }) => values[currency]?.gross_minor ?? 0),
    write: (minor) => money(minor, currency),
  }))
  const totals = series.map(({ values, write }) => write?.(sum(values)))
  return (
    <Figure
      title="Revenue"
      state={state}
      kind="bars"
      figure={totals.length === 0 ? '0' : totals.join(' · ')}
      note={totals.length === 0 ? `no payments ${last30}` : `gross, ${last30}`}
      at={days.map(({ at }) => at)}
      series={series}
    />
  )
}

function Deliveries({ days, state }: MetricProps<'deliveries'>) {
  const of = (pick: (values: Day<'deliveries'>['values']) => number | null) =>
    days.map(({ values }) => pick(values) ?? 0)
  const delivered = of((values) => values.delivered)
  const failed = of((values) => values.failed_attempts)
  const milliseconds = (value: number) => (value === 0 ? '–' : `${count(Math.round(value))} ms`)
  return (
    <Figure
      title="Webhook deliveries"
      state={state}
      kind="bars"
      figure={count(sum(delivered))}
      note={`delivered in 30 days, ${count(sum(failed))} failed attempts`}
      at={days.map(({ at }) => at)}
      series={[
        { name: 'delivered', values: delivered },
        { name: 'failed attempts', values: failed },
      ]}
      more={[
        { name: 'median', values: of((values) => values.p50_ms), write: milliseconds },
        { name: '95th percentile', values: of((values) => values.p95_ms), write: milliseconds },
      ]}
    />
  )
}

/** What somebody has to look at, of all applications that the key reaches. */
export function Alerts() {
  const alerts = useQuery(alertsQuery)
  const { data, error } = alerts
  return (
    <Section title="Alerts">
      <ReadProblem of={alerts} />
      {/* Without its points a list is none to some screen readers. */}
      <ul role="list" aria-label="Alerts" className={styles.alerts}>
        {data?.map((alert) => (
          <li key={alert.id}>
            <strong>{kindOf(alert)}</strong>
            <span>
              {alert.detail} <EndpointLink of={alert} />
            </span>
            <span className={styles.mailed}>
              <Time at={alert.created_at} />
              {alert.mailed_at ? ', mailed' : ', not mailed'}
            </span>
          </li>
        ))}
        {data?.length === 0 && (
          <li className={styles.none}>{error ? 'There were no alerts then.' : 'Nothing needs attention.'}</li>
        )}
        {!data && <li className={styles.none}>{error ? 'The alerts could not be read.' : 'Loading…'}</li>}
      </ul>
    </Section>
  )
}

function kindOf({ kind }: Alert): string {
  const text = words(kind)
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function EndpointLink({ of: { endpoint_id: endpointId, app_id: app } }: { of: Alert }) {
  if (endpointId === null) return null
  return (
    <Link to="/webhooks/endpoints/$endpointId" params={{ endpointId }} search={app === null ? {} : { app }}>
      Show the endpoint
    </Link>
  )
}
