import { useQuery, type UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { alertsQuery, metricQuery, periods, type Alert, type Day, type Period } from '../../api/overview.ts'
import { oneOf } from '../../api/paged-list.ts'
import { useAddress } from '../../address.ts'
import { Choice } from '../../parts/choice.tsx'
import { Figure, Total } from '../../parts/figure.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { count, Time, words } from '../../parts/text.tsx'
import { GettingStarted, useSteps } from './getting-started.tsx'
import styles from './overview.module.css'
import { Revenue } from './revenue.tsx'
import { sum } from './sum.ts'

export function Route() {
  const [{ days }, setAddress] = useAddress()
  const period = oneOf(periods, days) ?? '30'
  return (
    <Page
      title="Overview"
      needs={['read']}
      aside={
        <Choice
          label="Period"
          options={periods.map((one) => [one, `${one} days`])}
          chosen={period}
          onChoose={(one) => setAddress({ days: one === '30' ? undefined : one })}
        />
      }
    >
      <Overview period={period} />
    </Page>
  )
}

function Overview({ period }: { period: Period }) {
  const { appId } = useApplication()
  const licences = useQuery(metricQuery(appId, 'licences', period))
  const payments = useQuery(metricQuery(appId, 'payments', period))
  const deliveries = useQuery(metricQuery(appId, 'deliveries', period))
  const { steps, isKnown } = useSteps(appId)
  // The steps are above the figures. If they were loaded later, they would push the figures down.
  if (!isKnown) return null
  return (
    <>
      <GettingStarted steps={steps} />
      <ReadProblem of={[licences, payments, deliveries]} />
      <div className={styles.figures}>
        <Licences of={licences} period={period} />
        <Revenue of={payments} period={period} />
        <Deliveries of={deliveries} period={period} />
      </div>
      <Alerts />
    </>
  )
}

interface MetricProps<Metric extends 'licences' | 'payments' | 'deliveries'> {
  of: UseQueryResult<Day<Metric>[]>
  period: Period
}

function Licences({ of: reading, period }: MetricProps<'licences'>) {
  const { data: days = [] } = reading
  const at = days.map((day) => day.at)
  const of = (pick: (values: Day<'licences'>['values']) => number) => days.map(({ values }) => pick(values))
  const active = of((values) => values.active)
  const fresh = of(({ issued, imported, created }) => issued + imported + created)
  return (
    <>
      <Figure
        title="Active licences"
        of={reading}
        kind="line"
        figure={count(active.at(-1) ?? 0)}
        note={change(active, period)}
        at={at}
        series={[{ name: 'active', values: active }]}
      />
      <Figure
        title="New licences"
        of={reading}
        kind="bars"
        figure={count(sum(fresh))}
        note={`in the last ${period} days`}
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

function change(active: readonly number[], period: Period): string {
  const by = (active.at(-1) ?? 0) - (active[0] ?? 0)
  if (by === 0) return `same as ${period} days ago`
  return `${count(Math.abs(by))} ${by > 0 ? 'more' : 'fewer'} than ${period} days ago`
}

function Deliveries({ of: reading, period }: MetricProps<'deliveries'>) {
  const { data: days = [] } = reading
  const of = (pick: (values: Day<'deliveries'>['values']) => number | null) =>
    days.map(({ values }) => pick(values) ?? 0)
  const delivered = of((values) => values.delivered)
  const failed = of((values) => values.failed_attempts)
  const milliseconds = (value: number) => (value === 0 ? '–' : `${count(Math.round(value))} ms`)
  return (
    <Figure
      title="Webhook deliveries"
      of={reading}
      kind="bars"
      figure={
        <>
          <Total value={count(sum(delivered))} name="delivered" tone="first" />
          <Total value={count(sum(failed))} name="failed attempts" tone="bad" />
        </>
      }
      note={`in the last ${period} days`}
      at={days.map(({ at }) => at)}
      series={[
        { name: 'delivered', values: delivered },
        { name: 'failed attempts', values: failed, tone: 'bad' },
      ]}
      more={[
        { name: 'median', values: of((values) => values.p50_ms), write: milliseconds },
        { name: '95th percentile', values: of((values) => values.p95_ms), write: milliseconds },
      ]}
    />
  )
}

/** The alerts of all applications of the key. */
export function Alerts() {
  const alerts = useQuery(alertsQuery)
  const { data, error } = alerts
  return (
    <Section title="Alerts">
      <ReadProblem of={alerts} />
      {/* Some screen readers ignore a list that has no bullet points, so it has an explicit role. */}
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
