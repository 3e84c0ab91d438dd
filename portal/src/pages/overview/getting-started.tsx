import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { licenceList } from '../../api/licences.ts'
import type { PagedList } from '../../api/paged-list.ts'
import { definitionsQuery, plansQuery } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { deliveryList, endpointsQuery, type WebhookEndpoint } from '../../api/webhooks.ts'
import { Section } from '../../parts/page.tsx'
import styles from './overview.module.css'

/** Four steps from the first entitlement to the first verified webhook. It is hidden when all are done. */
export function GettingStarted({ steps }: Pick<Steps, 'steps'>) {
  const { can } = useSession()
  if (!steps || steps.every(({ done }) => done)) return null
  const next = steps.findIndex(({ done }) => !done)
  return (
    <Section title="Getting started">
      <ol role="list" aria-label="Getting started" className={styles.steps}>
        {steps.map(({ title, text, link, search, to, scope, done }, i) => (
          <li
            key={title}
            className={`${styles.step} ${done ? styles.done : ''}`}
            aria-current={i === next ? 'step' : undefined}
          >
            <div className={styles.stepHead}>
              <span className={styles.number} aria-hidden="true">
                {done ? '✓' : i + 1}
              </span>
              <h3>{title}</h3>
              {done && <span className="visually-hidden">(done)</span>}
            </div>
            <p>{text}</p>
            {!done && can(scope) && (
              <Link to={to} search={search}>
                {link}
              </Link>
            )}
          </li>
        ))}
      </ol>
    </Section>
  )
}

/** The page waits at most this long for the steps. */
const AWAITED_MS = 1000

interface Steps {
  /** Null if it is not known whether the step is done. */
  steps: ReturnType<typeof stepsOf> | null
  /** Whether the steps are loaded, or the page has stopped waiting for them. */
  isKnown: boolean
}

export function useSteps(appId: string): Steps {
  const isLate = useLate(AWAITED_MS)
  const definitions = useQuery(definitionsQuery(appId))
  const plans = useQuery(plansQuery(appId))
  const licences = useFirst(licenceList(appId), appId)
  const endpoints = useQuery(endpointsQuery(appId))
  const deliveries = useFirst(deliveryList(appId, { status: 'delivered' }), appId)
  const all = [definitions, plans, licences, endpoints, deliveries]
  const steps =
    definitions.data && plans.data && licences.data && endpoints.data && deliveries.data
      ? stepsOf({
          definitions: definitions.data,
          plans: plans.data,
          licences: licences.data.data,
          endpoints: endpoints.data,
          deliveries: deliveries.data.data,
        })
      : null
  return { steps, isKnown: isLate || steps !== null || all.some(({ failureCount }) => failureCount > 0) }
}

function useLate(afterMs: number): boolean {
  const [isLate, setLate] = useState(false)
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), afterMs)
    return () => clearTimeout(timer)
  }, [afterMs])
  return isLate
}

interface Made {
  definitions: readonly unknown[]
  plans: readonly unknown[]
  licences: readonly unknown[]
  endpoints: readonly WebhookEndpoint[]
  deliveries: readonly unknown[]
}

function stepsOf({ definitions, plans, licences, endpoints, deliveries }: Made) {
  const hasEndpoint = endpoints.some(({ status }) => status === 'enabled')
  return [
    {
      title: 'Define an entitlement',
      text: 'What your product checks: a feature, or a limit such as the number of projects.',
      link: 'New entitlement',
      to: '/plans',
      search: { open: 'new-entitlement' },
      scope: 'admin',
      done: definitions.length > 0,
    },
    {
      title: 'Create a plan',
      text: 'What you sell: it sets the values of the entitlements.',
      link: 'New plan',
      to: '/plans',
      search: { open: 'new-plan' },
      scope: 'admin',
      done: plans.length > 0,
    },
    {
      title: 'Issue a licence',
      text: 'For your first customer or for yourself. The licence key activates your product.',
      link: 'Issue licence',
      to: '/licences',
      search: { open: 'issue' },
      scope: 'issue',
      done: licences.length > 0,
    },
    {
      title: 'Receive a webhook',
      text: hasEndpoint
        ? 'Send a test event. This step is done when your backend answers 2xx.'
        : 'Enter the URL of your backend, save the signing secret, and send a test event.',
      link: hasEndpoint ? 'Send test event' : 'Add endpoint',
      to: '/webhooks',
      search: hasEndpoint ? {} : { open: 'add-endpoint' },
      scope: 'admin',
      done: deliveries.length > 0,
    },
  ] as const
}

/** Reads the first page of a list, to see whether the list is empty. */
function useFirst<Row>(list: PagedList<Row>, appId: string) {
  return useQuery({
    queryKey: [...list.key, ''],
    queryFn: ({ signal }) => list.load({}, signal),
    enabled: appId !== '',
  })
}
