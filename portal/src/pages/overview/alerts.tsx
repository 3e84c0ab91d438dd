import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { alertsQuery, type Alert } from '../../api/alerts.ts'
import { Section } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/reading.tsx'
import { Time, words } from '../../parts/text.tsx'
import styles from './overview.module.css'

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
